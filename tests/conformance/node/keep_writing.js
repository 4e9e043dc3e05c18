// Writes a record every 100 ms for so many seconds, by PLAIN; prints how many were written, and what went wrong.
// Standard input: {"bootstrap", "user", "password", "topic", "seconds"}.
const { readFileSync } = require('fs');
const { setTimeout: sleep } = require('timers/promises');
const { Kafka, logLevel } = require('kafkajs');

async function main({ bootstrap, user, password, topic, seconds }) {
  const errors = [];
  const kafka = new Kafka({
    clientId: 'keep-writing', brokers: [bootstrap], logLevel: logLevel.ERROR,
    logCreator: () => ({ log }) => errors.push(log.message),
    reauthenticationThreshold: 1000, // of the session, in which it comes again; ten seconds unless told
    sasl: { mechanism: 'plain', username: user, password },
  });
  const producer = kafka.producer();
  await producer.connect();
  let written = 0;
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; await sleep(100)) {
    await producer.send({ topic, messages: [{ value: 'value' }] });
    written += 1;
  }
  await producer.disconnect();
  console.log(JSON.stringify({ written, errors }));
}

main(JSON.parse(readFileSync(0, 'utf8'))).catch((error) => {
  console.error(error);
  process.exit(1);
});
