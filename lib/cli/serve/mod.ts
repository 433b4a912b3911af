/** @module Running the server: checked, in the foreground, or detached; stopping it, and starting it again. */

export { checkServe } from "./check.ts";
export { detach } from "./detach.ts";
export { serve } from "./serve.ts";
export { restartServer, stopServer } from "./stop.ts";
