// franz-go: makes a topic, writes COUNT records, reads them as a member of a group, commits, and asks for what is committed.
// Arguments: BOOTSTRAP TOPIC GROUP COUNT CODEC. Prints one JSON object: what was read, the group's state and its offsets.
// Without arguments: see log_in.go; with the only one "keep-writing": keep_writing.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type result struct {
	Read      [][5]any   `json:"read"`
	State     string     `json:"state"`
	Committed [][2]int64 `json:"committed"`
}

func main() {
	var err error
	switch len(os.Args) {
	case 1:
		err = logIns()
	case 2:
		err = keepWriting()
	default:
		err = run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(bootstrap, topic, group, wanted, codec string) error {
	count, err := strconv.Atoi(wanted)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Second)
	defer cancel()
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 3, 1, nil, topic); err != nil {
		return err
	}
	records := make([]*kgo.Record, count)
	for n := range records {
		records[n] = &kgo.Record{
			Topic: topic, Key: []byte(fmt.Sprintf("key-%d", n%7)), Value: []byte(fmt.Sprintf("value-%d", n)),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(n))}},
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}

	var done result
	for len(done.Read) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			done.Read = append(done.Read, [5]any{r.Partition, r.Offset, string(r.Key), string(r.Value), string(r.Headers[0].Value)})
		})
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	described, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	done.State = described[group].State
	offsets, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	for _, offset := range offsets.Sorted() {
		done.Committed = append(done.Committed, [2]int64{int64(offset.Partition), offset.At})
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}
