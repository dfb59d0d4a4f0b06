// Prints what the Khronos validator finds in the .glb files that are named, as JSON.
import { readFileSync } from 'node:fs';
import { validateBytes } from 'gltf-validator';

const found = {};
for (const path of process.argv.slice(2)) {
  const { issues } = await validateBytes(new Uint8Array(readFileSync(path)));
  found[path] = issues;
}
console.log(JSON.stringify(found));
