// A loopback proxy that adds the bearer token, because the suite sends none and the daemon requires
// one. Everything else is passed on unchanged, including Host and Origin, so that the suite tests the
// daemon.
//
//   node bearer.mjs RUNTIME_JSON    prints the port it listens on
import { readFileSync } from "node:fs"
import http from "node:http"

const { url, token } = JSON.parse(readFileSync(process.argv[2], "utf8"))
const daemon = new URL(url)

const server = http.createServer((request, response) => {
  const onward = http.request(
    {
      host: daemon.hostname,
      port: daemon.port,
      method: request.method,
      path: request.url,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
      setHost: false,
    },
    answer => {
      response.writeHead(answer.statusCode, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
    },
  )
  onward.on("error", () => response.destroy())
  response.on("close", () => onward.destroy())
  request.pipe(onward)
})
server.listen(0, "127.0.0.1", () => console.log(server.address().port))
