/* Windows. */
#define WIN32_LEAN_AND_MEAN
#define PSAPI_VERSION 2
#include <windows.h>

#include <psapi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/platform.h"

_Static_assert(sizeof(tgi_mutex) == sizeof(SRWLOCK), "a tgi_mutex is an SRWLOCK");

void tgi_mutex_init(tgi_mutex *mutex) { InitializeSRWLock((SRWLOCK *)mutex); }
void tgi_mutex_lock(tgi_mutex *mutex) { AcquireSRWLockExclusive((SRWLOCK *)mutex); }
bool tgi_mutex_try(tgi_mutex *mutex) { return TryAcquireSRWLockExclusive((SRWLOCK *)mutex); }
void tgi_mutex_unlock(tgi_mutex *mutex) { ReleaseSRWLockExclusive((SRWLOCK *)mutex); }
void tgi_mutex_destroy(tgi_mutex *mutex) {}

uintptr_t tgi_thread(void) { return GetCurrentThreadId(); }

/* Less than a millisecond yields to other threads, because timers of Windows are no finer. */
void tgi_sleep(uint32_t microseconds) { Sleep(microseconds / 1000); }

void tgi_park(void) {
  for (;;) Sleep(INFINITE);
}

static DWORD WINAPI run_task(void *given) {
  const tgi_task *one = given;
  one->work(one->given);
  return 0;
}

bool tgi_on_new_thread(void (*work)(void *), void *given) {
  tgi_task one = {work, given};
  HANDLE thread = CreateThread(NULL, TGI_STACK_BYTES, run_task, &one, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  if (!thread) return false;
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
  return true;
}

bool tgi_attempt(void (*work)(void *), void *given) {
  work(given);
  return true;
}

uint64_t tgi_now(void) {
  LARGE_INTEGER now, each;
  QueryPerformanceCounter(&now);
  QueryPerformanceFrequency(&each);
  uint64_t seconds = (uint64_t)(now.QuadPart / each.QuadPart), rest = (uint64_t)(now.QuadPart % each.QuadPart);
  return seconds * 1000000000u + rest * 1000000000u / (uint64_t)each.QuadPart;
}

/* Set by each thread that opens a device. */
static bool (*_Atomic at_exit)(void);

static void on_plain_exit(void) { atomic_load(&at_exit)(); }

/* atexit handlers of a library run when it is unloaded, after the process has ended its other threads. */
void tgi_at_exit(bool (*handler)(void)) {
  atomic_store(&at_exit, handler);
  atexit(on_plain_exit);
}

bool tgi_exits_alone(void) { return true; }

/* Windows has no fork. */
void tgi_at_fork(void (*before)(void), void (*after)(void), void (*in_child)(void)) {}

void *tgi_load(const char *path, char *reason, size_t size) {
  wchar_t wide[32768];
  HMODULE library = NULL;
  if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 32768)) library = LoadLibraryExW(wide, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (!library) snprintf(reason, size, "Windows reports error %lu.", GetLastError());
  return (void *)library;
}

void *tgi_symbol(void *library, const char *name) { return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name); }

void tgi_library_of(const void *code, char *path, size_t size) {
  wchar_t wide[32768];
  HMODULE library = NULL;
  DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  path[0] = 0;
  if (!GetModuleHandleExW(how, (LPCWSTR)code, &library) || !GetModuleFileNameW(library, wide, 32768)) return;
  if (!WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)size, NULL, NULL)) path[0] = 0;
}

void *tgi_process_symbol(const char *name) {
  HMODULE modules[1024];
  DWORD bytes = 0;
  void *found = NULL;
  if (!EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) return NULL;
  if (bytes > sizeof modules) bytes = sizeof modules;
  for (size_t i = 0; i < bytes / sizeof *modules && !found; i++) found = tgi_symbol((void *)modules[i], name);
  return found;
}

/* Every C runtime since that of Visual Studio 2015 allocates from the heap of the process. */
void *tgi_shared_alloc(size_t bytes) { return HeapAlloc(GetProcessHeap(), 0, bytes); }
void tgi_shared_free(void *memory) { HeapFree(GetProcessHeap(), 0, memory); }

bool tgi_probe_open(tgi_probe *probe) { return probe != NULL; }

size_t tgi_probe_copy(const tgi_probe *probe, const void *from, void *to, size_t most) {
  enum { PAGE = 4096 };
  SIZE_T got = 0, here = PAGE - (uintptr_t)from % PAGE;
  return ReadProcessMemory(GetCurrentProcess(), from, to, here < most ? here : most, &got) ? got : 0;
}

void tgi_probe_close(tgi_probe *probe) {}
