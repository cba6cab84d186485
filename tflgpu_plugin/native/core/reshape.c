/* Changes a replay to other shapes: uniforms, workgroups and sizes. Its pipelines, buffers and bind groups stay. */
#include "core/symbols.h"

static void put_word(tg_replay *replay, const tg_word *word, int64_t number) {
  uint32_t bits = tgi_word_bits(word->kind, number);
  uint8_t *at = replay->uniform_image + word->offset;
  replay->has_new_words |= memcmp(at, &bits, sizeof bits) != 0;
  memcpy(at, &bits, sizeof bits);
}

static void put_numbers(tg_replay *replay, const tgi_symbols *symbols, const int64_t *registers) {
  const tg_symbols *tables = &symbols->tables;
  for (size_t i = 0; i < tables->word_count; i++) put_word(replay, &tables->words[i], registers[tables->words[i].reg]);
  for (size_t i = 0; i < tables->group_count; i++) {
    const tg_group *group = &tables->groups[i];
    tgi_step *step = &replay->steps[group->dispatch];
    step->groups[group->axis] = (uint32_t)registers[group->reg];
    tgi_note_idle(step);
  }
}

static void put_bytes(tg_replay *replay, const uint64_t *bytes) {
  for (tgi_slot *slot = replay->inputs; slot < replay->states + replay->state_count; slot++)
    slot->bytes = bytes ? *bytes++ : slot->made;
}

int tgi_reshape(tg_replay *replay, const tgi_setting *setting, tg_error *err) {
  static const tgi_setting as_made;
  if (!setting) setting = &as_made;
  if (setting->number == replay->shape) return 0;
  tgi_symbols *before = replay->symbols, *symbols = setting->symbols;
  if (symbols && symbols->tables.word_count && !replay->uniform_image) {
    replay->uniform_image = tgi_copy(&replay->memory, symbols->tables.uniforms, symbols->tables.uniform_bytes, 1);
    if (!replay->uniform_image) return tgi_no_memory(err, "a run");
  }
  if (before && before != symbols) put_numbers(replay, before, before->made);
  if (symbols) put_numbers(replay, symbols, setting->registers);
  put_bytes(replay, symbols ? setting->bytes : NULL);
  if (symbols) tgi_retain(symbols);
  tgi_symbols_release(before);
  replay->symbols = symbols;
  replay->shape = setting->number;
  replay->repeats = 0;
  return 0;
}

void tgi_write_uniforms(const tg_replay *replay) {
  tg_buffer *uniforms = replay->buffers[replay->buffer_count - 1];
  if (replay->has_new_words) tgi_write_padded(uniforms, replay->uniform_image, uniforms->bytes);
}
