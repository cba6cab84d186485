/* Error messages: complete sentences for users. */
#include <stdarg.h>

#include "core/internal.h"

void tgi_trim(char *text) {
  enum { CONTINUES = 0x80, FIRST = 0xC0 };               /* the two highest bits of bytes of a character that has several */
  size_t end = strlen(text), at = end, most = end < 4 ? end : 4;
  while (end - at < most && ((unsigned char)text[at - 1] & FIRST) == CONTINUES) at--;
  if (end - at == most || ((unsigned char)text[at - 1] & FIRST) != FIRST) return;
  unsigned char first = (unsigned char)text[at - 1];
  size_t continued = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (end - at < continued) text[at - 1] = 0;
}

int tgi_fail(tg_error *err, const char *format, ...) {
  if (err) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    tgi_trim(err->text);
    err->no_memory = 0;
  }
  return 1;
}

int tgi_no_memory(tg_error *err, const char *what) {
  tgi_fail(err, "Not enough memory for %s.", what);
  if (err) err->no_memory = 1;
  return 1;
}

static bool is_scaffolding(const char *line, size_t length) {
  static const char *const prefixes[] = {"Validation Error", "Caused by:", "In wgpu", "In a "};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    size_t n = strlen(prefixes[i]);
    if (length >= n && !memcmp(line, prefixes[i], n)) return true;
  }
  return length == 0;
}

void tgi_readable(WGPUStringView message, char *text, size_t size) {
  const char *at = message.data ? message.data : "";
  size_t left = message.length == WGPU_STRLEN ? strlen(at) : message.length;
  size_t used = 0;
  while (left && used + 4 < size) {
    const char *newline = memchr(at, '\n', left);
    size_t length = newline ? (size_t)(newline - at) : left, skip = length + (newline ? 1 : 0);
    const char *line = at;
    while (length && (*line == ' ' || *line == '\t')) line++, length--;
    while (length && (line[length - 1] == ' ' || line[length - 1] == '\r')) length--;
    if (!is_scaffolding(line, length)) {
      if (used) text[used++] = ' ';
      for (size_t i = 0; i < length && used + 1 < size; i++)
        if (line[i] != ' ' || text[used - 1] != ' ') text[used++] = line[i];
    }
    at += skip;
    left -= skip;
  }
  text[used] = 0;
  tgi_trim(text);
}
