import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;

/** Print the constants of the named classes: numbers, short texts and ids, and the values of an enum's members. */
public final class Constants {
    private static final int LONGEST_TEXT = 80;

    private Constants() { }

    public static void main(String[] classes) throws ReflectiveOperationException {
        TreeSet<String> rows = new TreeSet<>();
        for (String name : classes) {
            add(Class.forName(name), rows);
        }
        System.out.println("class\tname\tpart\tvalue");
        rows.forEach(System.out::println);
    }

    private static void add(Class<?> type, TreeSet<String> rows) throws IllegalAccessException {
        for (Field field : type.getDeclaredFields()) {
            int modifiers = field.getModifiers();
            if (field.isSynthetic() || !Modifier.isStatic(modifiers) || !Modifier.isFinal(modifiers)) {
                continue;
            }
            field.setAccessible(true);
            Object value = field.get(null);
            if (!field.isEnumConstant()) {
                put(type, field.getName(), "", value, rows);
                continue;
            }
            for (Field part : type.getDeclaredFields()) {
                if (!part.isSynthetic() && !Modifier.isStatic(part.getModifiers())) {
                    part.setAccessible(true);
                    put(type, field.getName(), part.getName(), part.get(value), rows);
                }
            }
        }
    }

    private static void put(Class<?> type, String name, String part, Object value, TreeSet<String> rows) {
        String text;
        if (value instanceof Uuid) {
            Uuid id = (Uuid) value;
            text = String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
        } else if (value instanceof Number || value instanceof Boolean) {
            text = value.toString();
        } else if (value instanceof String && ((String) value).length() <= LONGEST_TEXT) {
            text = (String) value;
        } else {
            return;
        }
        rows.add(String.join("\t", type.getName(), name, part, text));
    }
}
