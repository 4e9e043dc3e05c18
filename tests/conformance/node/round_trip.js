// kafkajs: makes a topic, writes COUNT records, reads them as a member of a group, commits, and asks for what is committed.
// Arguments: BOOTSTRAP TOPIC GROUP COUNT none|gzip. Prints one JSON object: what was read, the group's state and its offsets.
const { CompressionTypes, Kafka, logLevel } = require('kafkajs');

async function main(bootstrap, topic, group, count, codec) {
  const kafka = new Kafka({ clientId: 'round-trip', brokers: [bootstrap], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }], waitForLeaders: true });

  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = [...Array(Number(count)).keys()].map((n) => ({
    key: `key-${n % 7}`, value: `value-${n}`, headers: { n: `${n}` },
  }));
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None;
  await producer.send({ topic, acks: -1, compression, messages });
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const read = [];
  let state;
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        read.push([partition, Number(message.offset), message.key.toString(), message.value.toString(), message.headers.n.toString()]);
        if (read.length === Number(count)) resolve();
      },
    }).catch(reject);
  });
  state = (await admin.describeGroups([group])).groups[0].state;
  await consumer.disconnect(); // commits what was read

  const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  await admin.disconnect();
  console.log(JSON.stringify({ read, state, committed: partitions.map((p) => [p.partition, Number(p.offset)]) }));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
