// Makes TypeScript of the schemas: node tools/schema.mjs SCHEMAS OUTPUT. Cap'n Proto's own compiler, `capnp`, reads them.
//
// Constants are not among what capnp-es writes, so they are taken from their file here: one line each.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [schemas, output] = process.argv.slice(2);
if (!schemas || !output) throw new Error("usage: node tools/schema.mjs SCHEMAS OUTPUT");

rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });
cpSync(schemas, join(output, "in"), { recursive: true });
const files = readdirSync(schemas).filter((name) => name.endsWith(".capnp"));
try {
  execFileSync(join("node_modules", ".bin", "capnp-es"), [...files.map((name) => join(output, "in", name)), `-ots:${output}`], {
    stdio: "pipe",
  });
} catch (error) {
  console.error(String(error.stderr ?? error));
  console.error("cannot compile the schemas: is Cap'n Proto's `capnp` installed?");
  process.exit(1);
}
// Written below the path of its input; wherever that is, the files belong together.
const written = join(output, output, "in");
for (const name of readdirSync(written)) renameSync(join(written, name), join(output, name));
rmSync(join(output, output.split("/")[0]), { recursive: true });
rmSync(join(output, "in"), { recursive: true });

const constants = readFileSync(join(schemas, "constants.capnp"), "utf8");
const lines = [...constants.matchAll(/^const (\w+) :\w+ = (\d+);/gm)].map(([, name, value]) => `export const ${name} = ${value};`);
if (lines.length === 0) throw new Error("there is no constant in constants.capnp");
writeFileSync(join(output, "constants.ts"), lines.join("\n") + "\n");
