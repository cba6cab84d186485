/* The oldest versions of dlopen, pthread_create and similar functions. glibc 2.34 moved them from libdl and libpthread to libc
 * with a new version, and a wheel that requires that version cannot be loaded with an older glibc. */
#pragma once
#include <dlfcn.h>
#include <pthread.h>

#ifdef __GLIBC__
#if defined(__x86_64__)
#define TGI_FIRST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define TGI_FIRST "GLIBC_2.17"
#endif
#endif

#ifdef TGI_FIRST
__asm__(".symver dlopen, dlopen@" TGI_FIRST);
__asm__(".symver dlsym, dlsym@" TGI_FIRST);
__asm__(".symver dladdr, dladdr@" TGI_FIRST);
__asm__(".symver dlerror, dlerror@" TGI_FIRST);
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@" TGI_FIRST);
__asm__(".symver pthread_create, pthread_create@" TGI_FIRST);
__asm__(".symver pthread_join, pthread_join@" TGI_FIRST);
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@" TGI_FIRST);
#endif
