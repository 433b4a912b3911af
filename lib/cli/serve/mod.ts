/** @module Running the server: checked, in the foreground, or detached. */

export { checkServe } from "./check.ts";
export { detach } from "./detach.ts";
export { serve } from "./serve.ts";
