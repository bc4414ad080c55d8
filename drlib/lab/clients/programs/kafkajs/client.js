// A producer or consumer as people write them in JavaScript with kafkajs: it knows one address and follows no pointer. It writes
// what it experienced as a history. Arguments: produce|consume, name, alias, bootstrap servers, topics, history, records per second.
'use strict'
const fs = require('node:fs')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const KEYS = 7
const [role, name, alias, servers, topics, path, perSecond] = process.argv.slice(2)
const history = fs.openSync(path, 'a', 0o600)
const line = (...fields) => fs.writeSync(history, JSON.stringify(fields) + '\n')
const kafka = new Kafka({ clientId: name, brokers: servers.split(','), logLevel: logLevel.ERROR })
let ended = false

async function produce(topic) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const waiting = new Set()
  for (let number = 0; !ended; number++) {
    const id = `${name}-${number}`
    const key = `${name}-k${number % KEYS}`
    const count = Math.floor(number / KEYS)
    const sent = Date.now()
    const send = producer.send({ topic, messages: [{ key, value: id, headers: { id, n: String(count) } }] }).then(
      ([at]) => line('P', id, key, count, alias, topic, at.partition, Number(at.baseOffset), sent, Date.now(), 'acked', null),
      (error) => {
        console.log(`not acknowledged: ${error.name}`)
        line('P', id, key, count, alias, topic, -1, -1, sent, Date.now(), 'in-doubt', null)
      },
    )
    waiting.add(send)
    send.finally(() => waiting.delete(send))
    await new Promise((resolve) => setTimeout(resolve, 1000 / Number(perSecond)))
  }
  await Promise.race([Promise.all(waiting), new Promise((resolve) => setTimeout(resolve, 5000))])
  line('E')
  process.exit(0)
}

async function consume(names) {
  const consumer = kafka.consumer({ groupId: name })
  await consumer.connect()
  await consumer.subscribe({ topics: names, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ topic, partition, message }) => {
      const n = Number(message.headers.n)
      const id = message.headers.id.toString()
      line('C', name, alias, topic, partition, Number(message.offset), id, message.key.toString(), n, Date.now())
    },
  })
  while (!ended) await new Promise((resolve) => setTimeout(resolve, 50))
  await Promise.race([consumer.disconnect(), new Promise((resolve) => setTimeout(resolve, 5000))])
  line('E')
  process.exit(0)
}

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => { ended = true })
const started = role === 'produce' ? produce(topics) : consume(topics.split(','))
started.catch((error) => {
  console.log(`ended: ${error.name}: ${error.message}`)
  process.exit(1)
})
