// Write an invoice for each order, exactly once, with kafkajs.
//
//   npm ci
//   node orders.js [localhost:9092]
const { Kafka, logLevel } = require('kafkajs');

const bootstrap = process.argv[2] ?? process.env.BOOTSTRAP_SERVERS ?? 'localhost:9092';
const kafka = new Kafka({ clientId: 'orders', brokers: bootstrap.split(','), logLevel: logLevel.WARN });
const ORDERS = 6;

// Write some orders and wait for their acknowledgements.
async function sendOrders() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = Array.from({ length: ORDERS }, (_, index) => ({
    key: `customer-${(index + 1) % 3}`,
    value: JSON.stringify({ number: index + 1, apples: 2 * (index + 1) }),
  }));
  await producer.send({ topic: 'orders', messages });
  await producer.disconnect();
}

// Read orders as a member of a group. A transaction makes an invoice and the commit of its order visible together.
async function writeInvoices() {
  const producer = kafka.producer({ transactionalId: 'billing-1', idempotent: true, maxInFlightRequests: 1 });
  const consumer = kafka.consumer({ groupId: 'billing', readUncommitted: false });
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: ['orders'], fromBeginning: true });

  let done = 0;
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    const eachBatch = async ({ batch }) => {
      const transaction = await producer.transaction();
      try {
        const messages = batch.messages.map(({ key, value }) => {
          const order = JSON.parse(value);
          const invoice = { order: order.number, cents: 50 * order.apples };
          console.log(`${key} owes ${invoice.cents} cents for order ${invoice.order}`);
          return { key, value: JSON.stringify(invoice) };
        });
        await transaction.send({ topic: 'invoices', messages });
        const offset = String(BigInt(batch.lastOffset()) + 1n);
        const topics = [{ topic: batch.topic, partitions: [{ partition: batch.partition, offset }] }];
        await transaction.sendOffsets({ consumerGroupId: 'billing', topics });
        await transaction.commit();
      } catch (error) {
        await transaction.abort();
        throw error;
      }
      done += batch.messages.length;
      if (done >= ORDERS) resolve();
    };
    consumer.run({ autoCommit: false, eachBatch }).catch(reject);
  });
  await consumer.disconnect();
  await producer.disconnect();
}

sendOrders()
  .then(writeInvoices)
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
