#include "vocabulary.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

constexpr int MAX_CALLS = 32;
constexpr int32_t NO_TOKEN = -1;

struct lv_tokenizer {
    const void *vocab;
    lv_tokenize_all tokenize;
    std::string bytes;
    std::vector<int64_t> ends;
    std::string mark;
    std::vector<int32_t> mark_tokens;
    int32_t byte_tokens[256];
    int32_t max_bytes;
    int32_t num_left_out;

    std::vector<int32_t> call(const std::string &text, bool parse_special) const {
        std::vector<int32_t> tokens(text.size() + 16);
        int32_t count = tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                 static_cast<int32_t>(tokens.size()), false, parse_special);
        if (count < 0) {
            tokens.resize(static_cast<size_t>(-count));
            count = tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), -count, false,
                             parse_special);
        }
        tokens.resize(static_cast<size_t>(std::max(count, 0)));
        return tokens;
    }

    std::string_view piece(int32_t token) const {
        const int64_t begin = token == 0 ? 0 : ends[static_cast<size_t>(token) - 1];
        return std::string_view(bytes).substr(static_cast<size_t>(begin), static_cast<size_t>(ends[token] - begin));
    }

    // The tokens of the text as it follows the mark.
    std::vector<int32_t> behind_mark(std::string_view text, bool parse_special) const {
        std::vector<int32_t> tokens = call(mark + std::string(text), parse_special);
        if (tokens.size() < mark_tokens.size() || !std::equal(mark_tokens.begin(), mark_tokens.end(), tokens.begin())) {
            return {};
        }
        tokens.erase(tokens.begin(), tokens.begin() + static_cast<int64_t>(mark_tokens.size()));
        return tokens;
    }

    // Whether all of the text was tokenized.
    bool exact(std::string_view text, bool parse_special, std::vector<int32_t> &tokens) const {
        for (int calls = 0; !text.empty(); ++calls) {
            if (calls == MAX_CALLS) {
                return false;
            }
            const size_t length = text.size();
            for (const int32_t token : behind_mark(text, parse_special)) {
                const std::string_view expected = piece(token);
                if (expected.empty() || text.substr(0, expected.size()) != expected) {
                    break;
                }
                tokens.push_back(token);
                text.remove_prefix(expected.size());
            }
            if (text.size() == length) {
                const int32_t token = byte_tokens[static_cast<unsigned char>(text[0])];
                if (token != NO_TOKEN) {
                    tokens.push_back(token);
                }
                text.remove_prefix(1);
            }
        }
        return true;
    }
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

lv_tokenizer *lv_create(const void *vocab, lv_tokenize_all tokenize, const char *bytes, const int64_t *ends,
                        int32_t num_tokens, const char *mark, int32_t max_bytes, int32_t num_left_out) {
    auto *self = new lv_tokenizer{};
    self->vocab = vocab;
    self->tokenize = tokenize;
    self->ends.assign(ends, ends + num_tokens);
    self->bytes.assign(bytes, num_tokens > 0 ? static_cast<size_t>(ends[num_tokens - 1]) : 0);
    self->mark = mark;
    self->max_bytes = max_bytes;
    self->num_left_out = num_left_out;
    self->mark_tokens = self->call(self->mark, false);
    std::fill(std::begin(self->byte_tokens), std::end(self->byte_tokens), NO_TOKEN);
    for (int32_t token = num_tokens - 1; token >= 0; --token) {
        const std::string_view piece = self->piece(token);
        if (piece.size() == 1) {
            self->byte_tokens[static_cast<unsigned char>(piece[0])] = token;
        }
    }
    return self;
}

void lv_destroy(lv_tokenizer *tokenizer) { delete tokenizer; }

int32_t lv_tokenize(const void *tokenizer, const char *text, int32_t length, int32_t *tokens, int32_t max_tokens, bool,
                    bool parse_special) {
    const auto *self = static_cast<const lv_tokenizer *>(tokenizer);
    int32_t end = length;
    if (length > self->max_bytes) {
        end = self->max_bytes;
        while (end > 0 && continues_character(text[end])) {
            --end;
        }
    }
    std::vector<int32_t> all;
    const bool is_whole = self->exact(std::string_view(text, static_cast<size_t>(end)), parse_special, all);
    if (!is_whole || end < length) {
        const size_t num_left_out = static_cast<size_t>(self->num_left_out);
        all.resize(all.size() > 2 * num_left_out ? all.size() - num_left_out : all.size());
    }
    const auto count = static_cast<int32_t>(all.size());
    if (count > max_tokens) {
        return -count;
    }
    std::copy(all.begin(), all.end(), tokens);
    return count;
}
}
