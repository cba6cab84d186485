/* A library of its own, with the name by which LiteRT looks for GPU accelerators. It has the definition of the accelerator in the
 * plugin's library, which is loaded already; a definition of zeros is refused by LiteRT. */
#include <string.h>

enum { BYTES = 200 };                                     /* tgr_definition in litert/abi.h */

#ifdef _WIN32
#include <windows.h>
#define PUBLIC __declspec(dllexport)
static const void *find(const char *name) {
  HMODULE library = GetModuleHandleA("tflgpu.dll");
  return library ? (const void *)GetProcAddress(library, name) : NULL;
}
#else
#include "glibc.h"
#define PUBLIC __attribute__((visibility("default")))
static const void *find(const char *name) {
#ifdef __APPLE__
  void *library = dlopen("@loader_path/../libtflgpu.dylib", RTLD_LAZY | RTLD_NOLOAD);
#else
  void *library = dlopen("tflgpu", RTLD_LAZY | RTLD_NOLOAD);   /* by its SONAME */
#endif
  return library ? dlsym(library, name) : NULL;
}
#endif

PUBLIC _Alignas(8) unsigned char LiteRtAcceleratorImpl[BYTES];

__attribute__((constructor)) static void take_over(void) {
  const void *found = find("LiteRtAcceleratorImpl");
  if (found) memcpy(LiteRtAcceleratorImpl, found, BYTES);
}
