// Vocabulary access for grammars: the pieces of all tokens at once, and a tokenizer bounded in time and stack. A
// plain C ABI over functions of llama.h, which are passed in. Used from Python with ctypes
// (localllm/llama/tokens/grammar_tokens.py).
#ifndef LOCALLLM_VOCABULARY_H
#define LOCALLLM_VOCABULARY_H

#include <stdbool.h>
#include <stdint.h>

#if defined(_WIN32)
#define LV_API __declspec(dllexport)
#else
#define LV_API __attribute__((visibility("default")))
#endif

#define LV_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

// llama_token_to_piece, llama_vocab_get_attr, llama_vocab_is_eog, llama_tokenize
typedef int32_t (*lv_to_piece)(const void *vocab, int32_t token, char *buffer, int32_t length, int32_t lstrip, bool special);
typedef int32_t (*lv_get_attribute)(const void *vocab, int32_t token);
typedef bool (*lv_is_end)(const void *vocab, int32_t token);
typedef int32_t (*lv_tokenize_all)(const void *vocab, const char *text, int32_t length, int32_t *tokens, int32_t max_tokens,
                                   bool add_special, bool parse_special);

LV_API int32_t lv_abi(void);

// For the tokens [0, num_tokens): their pieces concatenated in `bytes`, where each ends, its llama.cpp attributes, and
// whether it ends an answer. Returns the number of bytes: if that exceeds `capacity`, the pieces are incomplete.
LV_API int64_t lv_pieces(const void *vocab, int32_t num_tokens, lv_to_piece to_piece, lv_get_attribute get_attribute,
                         lv_is_end is_end, char *bytes, int64_t capacity, int64_t *ends, int32_t *attributes,
                         uint8_t *is_end_token);

// A tokenizer whose tokens' pieces are exactly the text, whatever llama.cpp inserts: SentencePiece models write a space
// before a text and after a user-defined token. `bytes` and `ends` come from lv_pieces and are copied. `mark` is a text
// that ends with a separate token, so that what follows it is tokenized as in mid-text; empty: no mark.
typedef struct lv_tokenizer lv_tokenizer;
LV_API lv_tokenizer *lv_create(const void *vocab, lv_tokenize_all tokenize, const char *bytes, const int64_t *ends,
                               int32_t num_tokens, const char *mark, int32_t max_bytes, int32_t num_left_out);
LV_API void lv_destroy(lv_tokenizer *tokenizer);
// Like llama_tokenize, where `tokenizer` is an lv_tokenizer. Of a text of more than `max_bytes`, only the tokens of its
// first `max_bytes`, without the last `num_left_out`, which might differ if the text continued. Likewise if llama.cpp
// would have to be called too often.
LV_API int32_t lv_tokenize(const void *tokenizer, const char *text, int32_t length, int32_t *tokens, int32_t max_tokens,
                           bool add_special, bool parse_special);

#ifdef __cplusplus
}
#endif
#endif
