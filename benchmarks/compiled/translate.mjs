// node translate.mjs PACKAGE KERNELS FOLDER: translates WGSL (a JSON list of strings) to HLSL and MSL with naga, and writes
// FOLDER/NUMBER.hlsl and FOLDER/NUMBER.metal, or the error to FOLDER/NUMBER.hlsl.error and so on.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [from, kernels, folder] = process.argv.slice(2);
const bindings = await import(pathToFileURL(path.join(from, "wgsl_wasm_transpiler_bg.js")));
const bytes = fs.readFileSync(path.join(from, "wgsl_wasm_transpiler_bg.wasm"));

// After a panic nothing in the module can be used any more.
async function start() {
  const { instance } = await WebAssembly.instantiate(bytes, { "./wgsl_wasm_transpiler_bg.js": bindings });
  bindings.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start?.();
}

await start();
for (const [number, wgsl] of JSON.parse(fs.readFileSync(kernels, "utf8")).entries()) {
  for (const format of ["hlsl", "metal"]) {
    const target = path.join(folder, `${number}.${format}`);
    try {
      fs.writeFileSync(target, bindings.compileShader(wgsl, format));
    } catch (error) {
      fs.writeFileSync(`${target}.error`, String(error));
      if (error instanceof WebAssembly.RuntimeError) await start();
    }
  }
}
