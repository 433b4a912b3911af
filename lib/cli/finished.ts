/** @module How a command ends with an exit code that is neither 0 nor an error's. */

/** Thrown by a command that said all it had to say: end with this code and print nothing more. */
export class Finished extends Error {
  constructor(readonly exit: number) {
    super(`finished with ${exit}`);
    this.name = "Finished";
  }
}
