/** @module A command that works with a server of this home, and without one on the home itself. */

import { isError } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";

/** Run `viaApi`, or `direct` on the home when no server of it answers. */
export async function either<T>(
  viaApi: (api: ApiClient) => Promise<T>,
  direct: () => Promise<T>,
): Promise<T> {
  try {
    using api = await ApiClient.open();
    return await viaApi(api);
  } catch (error) {
    if (!isError(error, "unreachable") || Deno.env.get("SUBLET_SERVER")) throw error;
    return await direct();
  }
}
