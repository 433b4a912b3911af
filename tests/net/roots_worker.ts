/** @module A thread that trusts roots that it was given, for a test of the permissions that this needs. */

import { openHttpClient } from "../../lib/net/mod.ts";

self.onmessage = async ({ data }: MessageEvent<{ server: string; ca: string }>) => {
  try {
    using client = openHttpClient(data);
    const response = await client.request({ method: "GET", path: "/" });
    self.postMessage(`${response.status}`);
  } catch (error) {
    self.postMessage(String(error));
  }
};
