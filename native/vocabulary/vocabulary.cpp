#include "vocabulary.h"

#include <algorithm>
#include <vector>

struct lv_tokenizer {
    const void *vocab;
    lv_tokenize_all tokenize;
    int32_t max_bytes;
    int32_t num_left_out;
};

namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

} // namespace

extern "C" {

int32_t lv_abi(void) { return LV_ABI; }

int64_t lv_pieces(const void *vocab, int32_t num_tokens, lv_to_piece to_piece, lv_get_attribute get_attribute,
                  lv_is_end is_end, char *bytes, int64_t capacity, int64_t *ends, int32_t *attributes,
                  uint8_t *is_end_token) {
    int64_t used = 0;
    for (int32_t token = 0; token < num_tokens; ++token) {
        const int64_t room = std::max<int64_t>(0, std::min<int64_t>(capacity - used, INT32_MAX));
        const int32_t length = to_piece(vocab, token, bytes + (room > 0 ? used : 0), static_cast<int32_t>(room), 0, true);
        used += length < 0 ? -static_cast<int64_t>(length) : length;
        ends[token] = used;
        attributes[token] = get_attribute(vocab, token);
        is_end_token[token] = is_end(vocab, token) ? 1 : 0;
    }
    return used;
}

lv_tokenizer *lv_create(const void *vocab, lv_tokenize_all tokenize, int32_t max_bytes, int32_t num_left_out) {
    return new lv_tokenizer{vocab, tokenize, max_bytes, num_left_out};
}

void lv_destroy(lv_tokenizer *tokenizer) { delete tokenizer; }

int32_t lv_tokenize(const void *tokenizer, const char *text, int32_t length, int32_t *tokens, int32_t max_tokens,
                    bool add_special, bool parse_special) {
    const auto *self = static_cast<const lv_tokenizer *>(tokenizer);
    if (length <= self->max_bytes) {
        return self->tokenize(self->vocab, text, length, tokens, max_tokens, add_special, parse_special);
    }
    int32_t end = self->max_bytes;
    while (end > 0 && continues_character(text[end])) {
        --end;
    }
    std::vector<int32_t> all(static_cast<size_t>(end) + 16);
    int32_t count = self->tokenize(self->vocab, text, end, all.data(), static_cast<int32_t>(all.size()), add_special,
                                   parse_special);
    if (count < 0) {
        all.resize(static_cast<size_t>(-count));
        count = self->tokenize(self->vocab, text, end, all.data(), -count, add_special, parse_special);
    }
    count = std::max(std::min(count, 1), count - self->num_left_out);
    if (count > max_tokens) {
        return -count;
    }
    std::copy(all.begin(), all.begin() + std::max(count, 0), tokens);
    return count;
}
}
