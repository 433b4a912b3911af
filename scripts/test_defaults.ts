/**
 * @module Loaded before the tests by a Deno that is older than 2.9, so that they mean the same everywhere: newer ones let
 * a test leave a timer or a connection behind, as undici does, whose clock goes on for a moment.
 */

import { type Argument, withoutSanitizers } from "./needs_test_defaults.ts";

const apply = (test: object, self: unknown, args: Argument[]): unknown =>
  Reflect.apply(test as () => unknown, self, withoutSanitizers(args));

const { test } = Deno;
Object.assign(Deno, {
  test: Object.assign(new Proxy(test, { apply }), {
    only: new Proxy(test.only, { apply }),
    ignore: new Proxy(test.ignore, { apply }),
  }),
});
