// Validates only schemas, like a typical CI script: js-yaml and ajv in one process.
import fs from "node:fs";
import path from "node:path";
import yaml from "js-yaml";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const [schemaDir, list] = process.argv.slice(2);
const ajv = new Ajv2020({ strict: false, allErrors: false });
addFormats(ajv);
const schemas = {};
for (const file of fs.readdirSync(schemaDir).filter((f) => /^[A-Z-]+\.schema\.json$/.test(f))) {
  const schema = JSON.parse(fs.readFileSync(path.join(schemaDir, file), "utf8"));
  schemas[file.replace(".schema.json", "")] = schema;
  ajv.addSchema(schema);
}
const validators = {};
let valid = 0;
let total = 0;
for (const file of fs.readFileSync(list, "utf8").split("\n").filter(Boolean)) {
  const kind = path.basename(file, ".md").split(".").pop();
  const text = fs.readFileSync(file, "utf8");
  const end = text.indexOf("\n---", 4);
  const data = yaml.load(text.slice(4, end));
  const validate = (validators[kind] ??= ajv.getSchema(schemas[kind].$id));
  total += 1;
  if (validate(data)) valid += 1;
}
console.log(JSON.stringify({ total, valid }));
