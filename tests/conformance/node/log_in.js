// Logs in once for each of the attempts (a JSON array on standard input), and prints what became of each (a JSON array).
const { readFileSync } = require('fs');
const { Kafka, logLevel } = require('kafkajs');

function sasl({ mechanism, user, password, token }) {
  if (!mechanism) return undefined;
  if (mechanism === 'OAUTHBEARER') return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token }) };
  return { mechanism: mechanism.toLowerCase(), username: user, password };
}

function tls({ ca, identity, store_password: passphrase }) {
  if (!ca) return undefined;
  const authority = readFileSync(ca.replace(/\.p12$/, '.pem')); // Node takes stores for its own certificate alone
  if (!identity) return { ca: [authority] };
  const own = readFileSync(identity);
  return { ca: [authority], ...(identity.endsWith('.p12') ? { pfx: own, passphrase } : { key: own, cert: own }) };
}

async function logIn(attempt) {
  const kafka = new Kafka({
    clientId: 'log-in', brokers: [attempt.bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 0 },
    sasl: sasl(attempt), ssl: tls(attempt),
  });
  const admin = kafka.admin();
  try {
    await admin.connect();
    await admin.describeCluster();
    return { in: true, error: '' };
  } catch (error) {
    return { in: false, error: `${error.name}: ${error.message}` };
  } finally {
    await admin.disconnect();
  }
}

async function main() {
  const outcomes = [];
  for (const attempt of JSON.parse(readFileSync(0, 'utf8'))) outcomes.push(await logIn(attempt));
  console.log(JSON.stringify(outcomes));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
