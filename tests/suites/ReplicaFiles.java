package kafka.server;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;

/** A replica of a member, read from its files at each question: tests look at ends of logs and at batches. */
final class ReplicaFiles {
    private File directory;

    private ReplicaFiles(File directory) {
        this.directory = directory;
    }

    /** Return the log of a partition, or its copy in another log directory, if one of these directories has it. */
    static Optional<UnifiedLog> find(List<String> logDirs, TopicPartition place, boolean isFuture) {
        return logDirs.stream()
            .flatMap(each -> Optional.ofNullable(new File(each).getAbsoluteFile().listFiles()).stream().flatMap(Arrays::stream))
            .filter(each -> isFuture ? each.getName().startsWith(place + ".") && each.getName().endsWith("-future") : each.getName().equals(place.toString()))
            .findFirst().map(each -> new ReplicaFiles(each).log());
    }

    private UnifiedLog log() {
        UnifiedLog log = BrokerServer.nothing(UnifiedLog.class);
        Mockito.when(log.dir()).thenAnswer(call -> directory);
        Mockito.when(log.parentDir()).thenReturn(directory.getParent());
        Mockito.doAnswer(call -> rename(call.getArgument(0))).when(log).renameDir(Mockito.anyString(), Mockito.anyBoolean());
        Mockito.when(log.logEndOffset()).thenAnswer(call -> endOffset());
        Mockito.when(log.highWatermark()).thenAnswer(call -> highWatermark());
        Mockito.when(log.logSegments()).thenAnswer(call -> Arrays.stream(segments()).map(ReplicaFiles::segment).toList());
        return log;
    }

    /** Rename the directory, while its broker is stopped. */
    private Object rename(String name) throws IOException {
        directory = Files.move(directory.toPath(), directory.toPath().resolveSibling(name)).toFile();
        return null;
    }

    private File[] segments() {
        File[] found = directory.listFiles((parent, name) -> name.endsWith(".log"));
        Arrays.sort(found);
        return found;
    }

    private long endOffset() {
        File[] found = segments();
        File last = found[found.length - 1];
        long end = Long.parseLong(last.getName().replace(".log", ""));
        try {
            FileRecords records = FileRecords.open(last, false);
            try {
                for (RecordBatch batch : records.batches())
                    end = batch.nextOffset();
            } finally {
                records.closeHandlers();  // close() would truncate the file
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return end;
    }

    /** Return what the member has written to its checkpoint: some seconds old. */
    private long highWatermark() throws IOException {
        Path checkpoint = directory.toPath().resolveSibling("replication-offset-checkpoint");
        String name = directory.getName();
        int dash = name.lastIndexOf('-');
        String start = name.substring(0, dash) + " " + name.substring(dash + 1) + " ";
        for (String line : Files.exists(checkpoint) ? Files.readAllLines(checkpoint) : List.<String>of())
            if (line.startsWith(start))
                return Long.parseLong(line.substring(start.length()));
        return 0;
    }

    private static LogSegment segment(File file) {
        LogSegment segment = BrokerServer.nothing(LogSegment.class);
        try {
            Mockito.when(segment.log()).thenAnswer(call -> FileRecords.open(file, false));
            Mockito.when(segment.read(Mockito.anyLong(), Mockito.anyInt())).thenAnswer(call -> read(file, call.getArgument(0)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return segment;
    }

    /** Return the batches from the one with this offset on. */
    private static FetchDataInfo read(File file, long offset) throws IOException {
        FileRecords records = FileRecords.open(file, false);
        int position = 0;
        for (RecordBatch batch : records.batches()) {
            if (batch.lastOffset() >= offset)
                break;
            position += batch.sizeInBytes();
        }
        return new FetchDataInfo(new LogOffsetMetadata(offset), records.slice(position, Integer.MAX_VALUE));
    }
}
