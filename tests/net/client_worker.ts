/** @module A worker that uses the HTTP client, for a test of the permissions that it needs. */

import { openHttpClient } from "../../lib/net/mod.ts";

self.onmessage = async ({ data: server }: MessageEvent<string>) => {
  try {
    using client = openHttpClient({ server });
    const data = new TextEncoder().encode("from a worker");
    const response = await client.request({
      method: "PUT",
      path: "/",
      body: { stream: new Blob([data]).stream(), length: data.length },
    });
    const { method, body } = JSON.parse(new TextDecoder().decode(await response.bytes()));
    self.postMessage(`${method} ${body}`);
  } catch (error) {
    self.postMessage(String(error));
  }
};
