import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs main classes inside one JVM, each in a thread with standard streams, shutdown hooks and an exit code of its own.
 *
 * Reads one JSON object a line: {"id", "main", "args", "stdin"} starts a program, {"id", "stop": true} runs its shutdown
 * hooks. Writes one JSON object a line: {"id", "out"}, {"id", "err"} for what it prints, {"id", "exit"} when it ends.
 */
public final class Runner {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final InheritableThreadLocal<Program> CURRENT = new InheritableThreadLocal<>();
    private static final Map<Integer, Program> PROGRAMS = new ConcurrentHashMap<>();
    private static final PrintStream ANSWERS = System.out;

    /** Unwinds the thread that called exit. */
    private static final class Exited extends ThreadDeath {
    }

    private static final class Program {
        final int id;
        final InputStream stdin;
        final List<Thread> hooks = Collections.synchronizedList(new ArrayList<>());
        private boolean ended;

        Program(int id, String stdin) {
            this.id = id;
            this.stdin = new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8));
        }

        synchronized void tell(String what, Object value) {
            if (!ended)
                answer(Map.of("id", id, what, value));
        }

        void runHooks() {
            List<Thread> taken;
            synchronized (hooks) {
                taken = new ArrayList<>(hooks);
                hooks.clear();
            }
            taken.forEach(Thread::start);
            for (Thread hook : taken) {
                try {
                    hook.join(10_000);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        }

        synchronized void end(int status) {
            tell("exit", status);
            ended = true;
        }
    }

    /** Passes what a thread prints on to the program that it belongs to, in whole UTF-8 characters. */
    private static final class Printed extends OutputStream {
        private final String what;

        Printed(String what) {
            this.what = what;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int start, int length) {
            Program program = CURRENT.get();
            if (program != null)
                program.tell(what, new String(bytes, start, length, StandardCharsets.UTF_8));
        }
    }

    /** Loads the tools' own classes for one program alone, for some of them count in static fields. */
    private static final class ToolLoader extends ClassLoader {
        ToolLoader() {
            super(Runner.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("org.apache.kafka.tools."))
                return super.loadClass(name, resolve);
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded != null ? loaded : findClass(name);
            }
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            try (InputStream resource = getResourceAsStream(name.replace('.', '/') + ".class")) {
                if (resource == null)
                    throw new ClassNotFoundException(name);
                byte[] bytes = resource.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (java.io.IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    private static final class Typed extends InputStream {
        @Override
        public int read() throws java.io.IOException {
            return CURRENT.get().stdin.read();
        }

        @Override
        public int read(byte[] bytes, int start, int length) throws java.io.IOException {
            return CURRENT.get().stdin.read(bytes, start, length);
        }
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new PrintStream(new Printed("out"), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Printed("err"), true, StandardCharsets.UTF_8));
        System.setIn(new Typed());
        Exit.setExitProcedure(Runner::exit);
        Exit.setHaltProcedure(Runner::exit);
        Exit.setShutdownHookAdder((name, runnable) -> {
            Thread hook = new Thread(runnable, name);
            CURRENT.get().hooks.add(hook);
        });
        BufferedReader requests = new BufferedReader(new InputStreamReader(new java.io.FileInputStream(java.io.FileDescriptor.in), StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            int id = request.get("id").asInt();
            if (request.has("stop")) {
                new Thread(PROGRAMS.get(id)::runHooks).start();
            } else {
                Program program = new Program(id, request.get("stdin").asText());
                PROGRAMS.put(id, program);
                new Thread(() -> run(program, request), "program-" + id).start();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(Program program, JsonNode request) {
        CURRENT.set(program);
        List<String> args = new ArrayList<>();
        request.get("args").forEach(arg -> args.add(arg.asText()));
        int status = 0;
        try {
            ClassLoader loader = new ToolLoader();
            Thread.currentThread().setContextClassLoader(loader);
            Class.forName(request.get("main").asText(), true, loader).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                status = 1;
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            status = 1;
        }
        program.runHooks();
        program.end(status);
    }

    private static void exit(int status, String message) {
        Program program = CURRENT.get();
        program.runHooks();
        program.end(status);
        throw new Exited();
    }

    private static synchronized void answer(Map<String, Object> event) {
        try {
            ANSWERS.println(JSON.writeValueAsString(event));
            ANSWERS.flush();
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
