import java.util.Arrays;
import java.util.Properties;

/** What command lines give as PROPERTY=VALUE. */
final class Arguments {
    private Arguments() {
    }

    static Properties properties(String[] args, int from) {
        Properties properties = new Properties();
        Arrays.stream(args).skip(from).map(arg -> arg.split("=", 2)).forEach(pair -> properties.put(pair[0], pair[1]));
        return properties;
    }
}
