// The page without a browser: node's fetch. Run with the folder of the client's modules; what is given is read, what was seen is written.
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { run } from './page.mjs'

const client = await import(`${pathToFileURL(process.argv[2]).href}/index.js`)
const saw = await run(client, JSON.parse(readFileSync(0, 'utf8')))
process.stdout.write(JSON.stringify(saw), () => process.exit(0))
