/* Drivers beside another LLVM. Libraries such as TensorFlow's export the one inside them to the whole process; Mesa's
 * drivers then call that one instead of their own, and crash: at once if it came before them, or later, since the Vulkan
 * loader binds a driver's functions when each is called for the first time. */
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

/* The first LLVM symbol of each library, copied: a library may be unloaded as soon as its turn is over. */
typedef struct {
  size_t count;
  char text[NAMES][LENGTH];
} names;

typedef struct {
  const ElfW(Sym) *symbols;
  const char *strings;
  const ElfW(Word) *hash, *gnu_hash;
} tables;

/* Of C, "LLVM" and a capital; of C++, a member of the namespace llvm, or its vtable and the like. */
static bool is_llvm(const char *name) {
  if (!strncmp(name, "LLVM", 4)) return name[4] >= 'A' && name[4] <= 'Z';
  if (name[0] != '_' || name[1] != 'Z') return false;
  for (const char *at = name + 2; at < name + 6 && *at; at++)
    if (!strncmp(at, "N4llvm", 6) || !strncmp(at, "NK4llvm", 7)) return true;
  return false;
}

/* DT_GNU_HASH does not say how many symbols there are: the last chain ends with the last of them. */
static size_t gnu_count(const ElfW(Word) *hash) {
  ElfW(Word) buckets = hash[0], first = hash[1], last = 0;
  const ElfW(Word) *bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(ElfW(Word))), *chain = bucket + buckets;
  for (ElfW(Word) i = 0; i < buckets; i++)
    if (bucket[i] > last) last = bucket[i];
  if (last < first) return first;
  while (!(chain[last - first] & 1)) last++;
  return (size_t)last + 1;
}

/* The loader relocates these addresses in most libraries, not in the kernel's own (the vDSO). */
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
  /* Of libraries that were loaded for themselves alone (RTLD_LOCAL) nobody else finds it. */
  for (size_t i = 0; i < found->count && !exported; i++) exported = dlsym(RTLD_DEFAULT, found->text[i]) != NULL;
  free(found);
  return exported;
}

void tg_open_driver(const char *path, int alone) {
  if (!dlopen(path, RTLD_NOW | RTLD_LOCAL | (alone ? RTLD_DEEPBIND : 0))) (void)dlerror();
}

#else
/* Libraries of Windows, for one, find their functions by the library's name, too, so no driver takes another one's. */
void tg_open_driver(const char *path, int alone) {}

int tg_llvm_is_exported(void) { return 0; }
#endif
