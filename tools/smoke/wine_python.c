/* python.exe: what CPython's own program does. Under Wine, Linux is first asked for the tiles of CPUs with AMX, of which
 * Windows gives every process its share: programs see in the CPU that there are some, and use them. */
#include <wchar.h>
#include <windows.h>

__declspec(dllimport) int Py_Main(int argc, wchar_t **argv);

static void ask_for_tiles(void) {
  enum { ARCH_PRCTL = 158, ARCH_REQ_XCOMP_PERM = 0x1023, TILES = 18 };
  long long result = ARCH_PRCTL;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"((long long)ARCH_REQ_XCOMP_PERM), "S"((long long)TILES)
                   : "rcx", "r11", "memory");
}

int wmain(int argc, wchar_t **argv) {
  if (GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_get_version")) ask_for_tiles();
  return Py_Main(argc, argv);
}
