// Idempotent and transactional producers of kafkajs. It reads lines `open CASE servers TOPIC [transactional ID]` and
// `send CASE VALUE`, and prints `CASE VALUE` with the offset or the error's name; with a transactional ID each value is a transaction.
'use strict'
const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const opened = new Map()

async function open(name, servers, topic, transactionalId) {
  const kafka = new Kafka({ clientId: name, brokers: servers.split(','), logLevel: logLevel.NOTHING })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, ...(transactionalId && { transactionalId }) })
  opened.set(name, { producer, topic, transactionalId })
  await producer.connect()
  if (transactionalId) await (await producer.transaction()).abort() // only its first transaction asks for its epoch
  return 0
}

async function send(name, value) {
  const { producer, topic, transactionalId } = opened.get(name)
  const record = { topic, messages: [{ value, partition: 0 }] }
  if (!transactionalId) return (await producer.send(record))[0].baseOffset
  const transaction = await producer.transaction()
  try {
    const [sent] = await transaction.send(record)
    await transaction.commit()
    return sent.baseOffset
  } catch (error) {
    await transaction.abort().catch(() => {})
    throw error
  }
}

const last = new Map() // of each case, so that its lines are done in order
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [verb, name, ...words] = line.split(' ')
  const value = verb === 'open' ? 'open' : words[0]
  const before = last.get(name) || Promise.resolve()
  last.set(name, before.then(() => (verb === 'open' ? open(name, ...words) : send(name, value))).then(
    (offset) => console.log(`${name} ${value} ${offset}`),
    (error) => {
      console.error(`${name} ${value} ${error}`)
      console.log(`${name} ${value} ${error.type || error.name}`)
    },
  ))
}).on('close', () => process.exit(0))
process.on('unhandledRejection', (error) => console.error(`${error}`))
