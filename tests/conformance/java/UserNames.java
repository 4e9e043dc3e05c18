import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.stream.Collectors;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Who certificates and names stand for: {"certificate": DER, "others": anything or absent} or {"name", "rules"} a line on stdin, a JSON string each on stdout. */
public final class UserNames {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine())
            System.out.println(escaped(answer(JSON.readTree(line))));
    }

    private static String answer(JsonNode asked) throws Exception {
        if (asked.has("certificate")) {
            ByteArrayInputStream der = new ByteArrayInputStream(asked.get("certificate").binaryValue());
            X509Certificate certificate = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(der);
            return asked.has("others") ? others(certificate) : certificate.getSubjectX500Principal().getName();
        }
        SslPrincipalMapper rules;
        try {
            rules = SslPrincipalMapper.fromRules(asked.get("rules").asText());
        } catch (IllegalArgumentException error) {
            return "bad rules";
        }
        try {
            return rules.getName(asked.get("name").asText());
        } catch (IOException | RuntimeException error) {
            return "no user";
        }
    }

    /** Its alternative names as "kind name", sorted, a line each. */
    private static String others(X509Certificate certificate) throws Exception {
        if (certificate.getSubjectAlternativeNames() == null)
            return "";
        return certificate.getSubjectAlternativeNames().stream()
            .map(each -> each.get(0) + " " + each.get(1))
            .sorted()
            .collect(Collectors.joining("\n"));
    }

    /** With all but ASCII escaped, whatever the encoding of stdout. */
    private static String escaped(String text) throws IOException {
        return JSON.writer().with(com.fasterxml.jackson.core.json.JsonWriteFeature.ESCAPE_NON_ASCII).writeValueAsString(text);
    }
}
