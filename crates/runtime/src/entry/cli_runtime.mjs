// What an entry imports as "@agentproto/cli-runtime" (AIP-29, defineCli). It only stores the
// definition. `defineCli` is also a global.

const HANDLE = Symbol.for("agentproto.cli");
const TEXTS = ["id", "name", "description", "bin"];
const HOOKS = ["login", "refresh", "parseOutput", "detectExpiry"];

export function defineCli(definition) {
  if (definition === null || typeof definition !== "object") {
    throw new TypeError("defineCli() takes an object");
  }
  for (const name of TEXTS) {
    if (typeof definition[name] !== "string") throw new TypeError(`defineCli(): \`${name}\` must be a string`);
  }
  for (const name of HOOKS) {
    const hook = definition[name];
    if (hook !== undefined && typeof hook !== "function") throw new TypeError(`defineCli(): \`${name}\` must be a function`);
  }
  return Object.freeze({ definition: Object.freeze({ ...definition }), [HANDLE]: true });
}

export { defineCli as createCli, defineCli as cli };
export default defineCli;
