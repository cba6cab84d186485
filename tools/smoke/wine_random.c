/* bcryptprimitives.dll, which Wine 8 lacks: the one function that programs in Rust take from it. */
#include <stddef.h>
#include <windows.h>

#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes) { return RtlGenRandom(data, (ULONG)bytes); }
