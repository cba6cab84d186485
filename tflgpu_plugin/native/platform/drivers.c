/* Vulkan drivers and another LLVM. Libraries such as TensorFlow's export their LLVM to the whole process. Mesa's drivers then
 * call that one instead of their own and crash: at once if it was loaded before them, else later, because the Vulkan loader
 * binds each function of a driver at its first call. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "core/tflgpu.h"
#pragma GCC visibility pop

#ifdef __GLIBC__
#include <link.h>

#include "platform/glibc.h"

enum { NAMES = 64, LENGTH = 256 };

/* The first LLVM symbol of each library. The name is copied, because the library may be unloaded meanwhile. */
typedef struct {
  size_t count;
  char text[NAMES][LENGTH];
} names;

typedef struct {
  const ElfW(Sym) *symbols;
  const char *strings;
  const ElfW(Word) *hash, *gnu_hash;
} tables;

/* Returns whether a symbol is LLVM's: in C "LLVM" and a capital, in C++ a member of the namespace llvm or its vtable. */
static bool is_llvm(const char *name) {
  if (!strncmp(name, "LLVM", 4)) return name[4] >= 'A' && name[4] <= 'Z';
  if (name[0] != '_' || name[1] != 'Z') return false;
  for (const char *at = name + 2; at < name + 6 && *at; at++)
    if (!strncmp(at, "N4llvm", 6) || !strncmp(at, "NK4llvm", 7)) return true;
  return false;
}

/* Returns the number of symbols. DT_GNU_HASH does not have it, but the last symbol ends the last chain. */
static size_t gnu_count(const ElfW(Word) *hash) {
  ElfW(Word) buckets = hash[0], first = hash[1], last = 0;
  const ElfW(Word) *bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(ElfW(Word))), *chain = bucket + buckets;
  for (ElfW(Word) i = 0; i < buckets; i++)
    if (bucket[i] > last) last = bucket[i];
  if (last < first) return first;
  while (!(chain[last - first] & 1)) last++;
  return (size_t)last + 1;
}

/* The loader has relocated these addresses in most libraries, but not in the kernel's (vDSO). */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) address) {
  return (const void *)(address < info->dlpi_addr ? info->dlpi_addr + address : address);
}

static tables find_tables(const struct dl_phdr_info *info) {
  tables found = {0};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    for (const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); entry->d_tag; entry++) {
      if (entry->d_tag == DT_SYMTAB) found.symbols = at(info, entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB) found.strings = at(info, entry->d_un.d_ptr);
      if (entry->d_tag == DT_HASH) found.hash = at(info, entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH) found.gnu_hash = at(info, entry->d_un.d_ptr);
    }
  }
  return found;
}

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  names *found = data;
  tables in = find_tables(info);
  if (!in.symbols || !in.strings || (!in.hash && !in.gnu_hash)) return 0;
  size_t count = in.gnu_hash ? gnu_count(in.gnu_hash) : in.hash[1];
  for (size_t i = in.gnu_hash ? in.gnu_hash[1] : 0; i < count; i++) {
    const char *name = in.strings + in.symbols[i].st_name;
    if (in.symbols[i].st_shndx == SHN_UNDEF || !is_llvm(name) || strlen(name) >= LENGTH) continue;
    strcpy(found->text[found->count++], name);
    break;
  }
  return found->count == NAMES;
}

int tg_llvm_is_exported(void) {
  names *found = calloc(1, sizeof *found);
  if (!found) return 0;
  dl_iterate_phdr(look, found);
  int exported = 0;
  /* dlsym does not find symbols of libraries that were loaded with RTLD_LOCAL; neither do drivers. */
  for (size_t i = 0; i < found->count && !exported; i++) exported = dlsym(RTLD_DEFAULT, found->text[i]) != NULL;
  free(found);
  return exported;
}

void tg_open_driver(const char *path, int alone) {
  if (!dlopen(path, RTLD_NOW | RTLD_LOCAL | (alone ? RTLD_DEEPBIND : 0))) (void)dlerror();
}

#else
/* Windows looks a function up in the library that is named for it, so drivers cannot get another library's. */
void tg_open_driver(const char *path, int alone) {}

int tg_llvm_is_exported(void) { return 0; }
#endif
