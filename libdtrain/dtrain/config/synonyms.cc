// synonyms.cc - one table: our key, and what others call it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/synonyms.h"

#include <algorithm>
#include <array>

#include "dtrain/config/nearest_name.h"

namespace dtrain {
namespace {

// `names` are between spaces, in small letters with "_". Rows of one name are offered in this
// order.
struct Synonyms {
  std::string_view key;  // a "=value" behind it is part of the suggestion
  std::string_view names;
};

constexpr std::array kSynonyms = {
    Synonyms{"optimizer.learning_rate", " lr learn_rate base_lr max_lr peak_lr "},
    Synonyms{"optimizer.min_learning_rate", " min_lr end_lr lr_min stop_min_lr "},
    Synonyms{"optimizer.schedule",
             " lr_scheduler lr_scheduler_type lr_policy lr_schedule scheduler lr_decay "
             "lr_decay_inv_sqrt "},
    Synonyms{"optimizer.warmup_steps",
             " warmup lr_warmup warmup_updates num_warmup_steps warmup_iters warmup_proportion "},
    Synonyms{"trainer.warmup_ratio",
             " warmup lr_warmup warmup_updates num_warmup_steps "
             "warmup_steps warmup_iters warmup_proportion "},
    Synonyms{"optimizer.total_steps", " lr_decay_steps decay_steps total_num_update "},
    Synonyms{"optimizer.clip_norm", " clip clip_grad grad_clip max_grad_norm max_norm "},
    Synonyms{"optimizer.weight_decay", " wd decay l2 "},
    Synonyms{"optimizer.type", " optim optimizer optimizer_type "},
    Synonyms{"optimizer.beta1", " adam_beta1 adam_betas betas optimizer_params "},
    Synonyms{"optimizer.beta2", " adam_beta2 adam_betas betas optimizer_params "},
    Synonyms{"optimizer.epsilon", " eps adam_eps adam_epsilon "},
    Synonyms{"optimizer.ema_decay", " ema exponential_smoothing ema_alpha "},
    Synonyms{"trainer.max_epochs",
             " epochs epoch num_epochs n_epochs num_train_epochs max_epoch after_epochs after "},
    Synonyms{"trainer.max_steps",
             " steps num_steps train_steps num_train_steps max_train_steps max_update max_updates "
             "updates iterations iters after_batches after "},
    Synonyms{"trainer.max_time", " time max_hours time_limit stop_time_hours after "},
    Synonyms{"trainer.batch_size",
             " batch bs batchsize batch_size train_batch_size global_batch_size "
             "per_device_train_batch_size per_gpu_train_batch_size batch_size_per_gpu mini_batch "},
    Synonyms{"trainer.tokens_per_batch",
             " batch bs batchsize batch_size train_batch_size global_batch_size "
             "per_device_train_batch_size per_gpu_train_batch_size batch_size_per_gpu mini_batch "
             "mini_batch_words max_tokens batch_tokens "},
    Synonyms{"trainer.micro_batch_tokens",
             " mini_batch_fit workspace gradient_accumulation_steps update_freq optimizer_delay "
             "iter_size accumulate "},
    Synonyms{"trainer.seed", " seed random_seed "},
    Synonyms{"trainer.seeds", " seed random_seed "},
    Synonyms{"trainer.precision=fp16", " fp16 half float16 use_fp16 memory_efficient_fp16 "},
    Synonyms{"trainer.precision=bf16", " bf16 bfloat16 use_bf16 "},
    Synonyms{"trainer.precision", " amp mixed_precision dtype torch_dtype "},
    Synonyms{"trainer.recompute=full", " gradient_checkpointing checkpoint_activations "},
    Synonyms{"trainer.label_smoothing", " label_smoothing_factor ls "},
    Synonyms{"trainer.eval_every",
             " eval_steps eval_strategy evaluation_strategy valid_freq validate_interval "
             "validate_interval_updates eval_interval "},
    Synonyms{"trainer.checkpoint_every",
             " save_steps save_strategy save_freq save_interval save_interval_updates "
             "save_checkpoint_steps checkpoint_steps "},
    Synonyms{"trainer.keep_last",
             " save_total_limit keep_last_epochs keep_interval_updates num_checkpoints keep_best "},
    Synonyms{"trainer.log_every",
             " logging_steps log_interval log_steps disp_freq print_loss_steps "},
    Synonyms{"trainer.early_stop.patience", " patience early_stopping early_stopping_patience "},
    Synonyms{"trainer.best_metric", " metric_for_best_model best_checkpoint_metric valid_metrics "},
    Synonyms{"trainer.beam_size", " beam num_beams "},
    Synonyms{"trainer.beam_alpha", " lenpen length_penalty normalize alpha "},
    Synonyms{"model.hidden_size",
             " d_model hidden hidden_dim dim dim_emb emb_size embed_dim n_embd encoder_embed_dim "
             "decoder_embed_dim "},
    Synonyms{"model.num_heads",
             " heads nhead n_head num_attention_heads transformer_heads encoder_attention_heads "
             "decoder_attention_heads "},
    Synonyms{"model.num_layers", " layers n_layer num_hidden_layers depth "},
    Synonyms{"model.encoder_layers", " layers num_layers n_layer enc_depth "},
    Synonyms{"model.decoder_layers", " layers num_layers n_layer dec_depth "},
    Synonyms{"model.ffn_size",
             " ffn d_ff intermediate_size filter_size dim_feedforward transformer_dim_ffn "
             "encoder_ffn_embed_dim decoder_ffn_embed_dim "},
    Synonyms{"model.dropout",
             " transformer_dropout hidden_dropout_prob residual_dropout dropout_prob "},
    Synonyms{"model.attention_dropout",
             " attention_probs_dropout_prob transformer_dropout_attention attn_dropout "},
    Synonyms{"model.activation_dropout", " relu_dropout transformer_dropout_ffn "},
    Synonyms{"model.activation", " hidden_act activation_fn "},
    Synonyms{"model.tie_output",
             " tied_embeddings_all tie_word_embeddings "
             "share_all_embeddings tied_embeddings "},
    Synonyms{"model.pretrained",
             " model_name_or_path bert_model init_checkpoint pretrained_model pretrained "
             "load_model base_checkpoint "},
    Synonyms{"data.max_length",
             " max_len max_seq_length max_seq_len max_sequence_length seq_length sequence_length "
             "max_source_length max_target_length max_source_positions max_target_positions "},
    Synonyms{"data.train", " train_file train_sets train_data trainpref dataset train "},
    Synonyms{"data.train_source", " train_file train_sets train_data trainpref train src "},
    Synonyms{"data.train_target", " train_file train_sets train_data trainpref train trg tgt "},
    Synonyms{"data.train_tsv", " train_file train_sets train_data trainpref dataset train tsv "},
    Synonyms{"data.dev", " valid valid_sets validation_file dev_file eval_file validpref dev "},
    Synonyms{"data.dev_source",
             " valid valid_sets validation_file dev_file eval_file validpref dev "},
    Synonyms{"data.dev_target",
             " valid valid_sets validation_file dev_file eval_file validpref dev "},
    Synonyms{"data.test", " test_file testpref predict_file test "},
    Synonyms{"data.test_source", " test_file testpref test "},
    Synonyms{"data.test_target", " test_file testpref test "},
    Synonyms{"data.vocabulary", " vocab vocabs vocab_file tokenizer_name "},
    Synonyms{"data.vocab_size", " dim_vocabs bpe_size nwords "},
    Synonyms{"data.source_language", " source_lang src_lang "},
    Synonyms{"data.target_language", " target_lang tgt_lang trg_lang "},
    Synonyms{"data.length_window", " maxi_batch group_by_length "},
    Synonyms{"data.glue", " task task_name "},
    Synonyms{"data.text", " text_column text_column_name text_column_names sentence_column "},
    Synonyms{"data.label", " label_column label_column_name target_column "},
    Synonyms{"data.label_names", " num_labels num_classes classes class_names "},
    Synonyms{"data.lower_case", " do_lower_case lowercase uncased "},
    Synonyms{"data.stride", " doc_stride "},
    Synonyms{"data.max_question", " max_query_length "},
    Synonyms{"answer.max_length", " max_answer_length "},
    Synonyms{"answer.n_best", " n_best_size "},
    Synonyms{"data.masked_share", " mlm_probability masked_lm_prob mask_prob "},
    Synonyms{"data.max_predictions", " max_predictions_per_seq "},
    Synonyms{"run.run_dir",
             " output_dir output save_dir model_dir model_path logdir log_dir out_dir out "},
    Synonyms{"run.resume", " resume_from_checkpoint restore_file continue "},
    Synonyms{"run.device", " devices gpu gpus cuda use_cuda num_gpus "},
    Synonyms{"run.device=cpu", " cpu no_cuda use_cpu "},
    Synonyms{"run.threads",
             " cpu_threads num_threads n_threads workers num_workers dataloader_num_workers "},
    Synonyms{"run.tensorboard", " report_to tensorboard_logdir use_tensorboard "},
    // Values.
    Synonyms{"cuda", " gpu cuda:0 nvidia "},
    Synonyms{"fp16", " float16 half amp mixed "},
    Synonyms{"bf16", " bfloat16 "},
    Synonyms{"fp32", " float32 float single "},
    Synonyms{"linear_to_budget", " budget time "},
    Synonyms{"inverse_sqrt", " inv_sqrt isqrt rsqrt noam "},
    Synonyms{"linear", " linear_decay "},
    Synonyms{"gelu_erf", " gelu "},
    // Flags of the tool.
    Synonyms{"threads", " cpu_threads num_threads n_threads workers "},
    Synonyms{"beam_size", " beam num_beams "},
    Synonyms{"alpha", " lenpen length_penalty normalize "},
    Synonyms{"batch_tokens", " batch_size mini_batch max_tokens mini_batch_words bs "},
    Synonyms{"precision", " fp16 bf16 half float16 bfloat16 dtype "},
    Synonyms{"reference", " ref refs target tgt trg "},
    Synonyms{"hypothesis", " hyp sys system "},
    Synonyms{"source", " src "},
    Synonyms{"extra_length", " max_length_factor max_length max_len "},
    Synonyms{"size", " vocab_size "},
    Synonyms{"vocab_size", " bpe_size nwords dim_vocabs "},
    Synonyms{"train_source", " train train_sets train_file trainpref "},
    Synonyms{"train_target", " train train_sets train_file trainpref "},
    Synonyms{"train_tsv", " train train_sets train_file trainpref "},
    Synonyms{"ranks", " gpus num_gpus world_size nproc_per_node "},
    Synonyms{"nodes", " nnodes hosts num_nodes "},
};

// As the table writes names.
std::string Plain(std::string_view name) {
  std::string plain(LastPart(name).substr(0, 100));
  for (char& c : plain) {
    if (c == '-') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return plain;
}

}  // namespace

std::vector<std::string> KeysCalled(std::string_view name, const std::vector<std::string>& keys) {
  const std::string plain = Plain(name);
  if (plain.empty() || plain.find(' ') != std::string::npos) return {};
  std::vector<std::string> called;
  for (const Synonyms& row : kSynonyms) {
    const std::string_view key = row.key.substr(0, row.key.find('='));
    const bool is_called = row.names.find(" " + plain + " ") != std::string_view::npos;
    if (is_called && std::find(keys.begin(), keys.end(), key) != keys.end()) {
      called.emplace_back(row.key);
    }
  }
  return called;
}

std::string DidYouMeanKey(std::string_view name, const std::vector<std::string>& keys) {
  const std::string plain = Plain(name);
  std::vector<std::string> same_last_part;
  for (const std::string& key : keys) {
    if (LastPart(key) == plain) same_last_part.push_back(key);
  }
  if (!same_last_part.empty()) return DidYouMeanOneOf(same_last_part);
  const std::vector<std::string> called = KeysCalled(name, keys);
  return called.empty() ? DidYouMean(name, keys) : DidYouMeanOneOf(called);
}

}  // namespace dtrain
