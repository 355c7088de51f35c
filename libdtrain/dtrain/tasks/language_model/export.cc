// export.cc - turns matrices, joins q, k and v, and describes bytes as a tokenizer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/export.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/utf8.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/device/arena.h"
#include "dtrain/tasks/language_model/internal/trained_language_model.h"
#include "dtrain/tasks/language_model/tokens.h"
#include "dtrain/tasks/shared/internal/hf_folder.h"
#include "dtrain/tasks/shared/internal/peft_folder.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kClass[] = "GPT2LMHeadModel";
constexpr char kMark[] = "<|endoftext|>";

// The weights as GPT2LMHeadModel keeps them. The output projection is the table of the words.
class Weights {
 public:
  explicit Weights(Gpt& model)
      : parameters_(model.parameters()), arena_(Arena::Create({}, "export")) {
    for (const char* const name : {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"}) {
      Copy(absl::StrCat("transformer.", name));
    }
    for (int i = 0; i < model.options().num_layers; ++i) {
      const std::string layer = absl::StrCat("transformer.h.", i, ".");
      for (const char* const norm : {"ln_1", "ln_2"}) {
        Copy(absl::StrCat(layer, norm, ".weight"));
        Copy(absl::StrCat(layer, norm, ".bias"));
      }
      Join(layer + "attn.c_attn", {layer + "attn.q", layer + "attn.k", layer + "attn.v"});
      for (const char* const name : {"attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
        Join(layer + name, {layer + name});
      }
    }
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  Tensor& Master(const std::string& name) { return parameters_.Find(name)->master(); }

  void Copy(const std::string& name) { tensors_.push_back(internal::HfTensor(name, Master(name))); }

  // Layers [out, in], one behind the other, as one matrix [in, sum of outs] with its bias.
  void Join(const std::string& name, const std::vector<std::string>& layers) {
    int64_t outs = 0;
    for (const std::string& layer : layers) outs += Master(layer + ".weight").dim(0);
    const int64_t ins = Master(layers.front() + ".weight").dim(1);
    Tensor weight = Empty(*arena_, {ins, outs}, DType::kFloat32);
    Tensor bias = Empty(*arena_, {outs}, DType::kFloat32);
    int64_t first = 0;
    for (const std::string& layer : layers) {
      const Tensor& from = Master(layer + ".weight");
      const Tensor& its_bias = Master(layer + ".bias");
      for (int64_t out = 0; out < from.dim(0); ++out) {
        for (int64_t in = 0; in < ins; ++in) {
          weight.data<float>()[in * outs + first + out] = from.data<float>()[out * ins + in];
        }
        bias.data<float>()[first + out] = its_bias.data<float>()[out];
      }
      first += from.dim(0);
    }
    tensors_.push_back(internal::HfTensor(name + ".weight", weight));
    tensors_.push_back(internal::HfTensor(name + ".bias", bias));
    kept_.push_back(weight);
    kept_.push_back(bias);
  }

  ParameterSet& parameters_;
  std::shared_ptr<Arena> arena_;
  std::vector<Tensor> kept_;  // the memory of tensors_
  std::vector<NamedTensor> tensors_;
};

Json ConfigJson(const GptOptions& options) {
  const double dropout = internal::ShortestDecimal(options.dropout);
  return {{"architectures", {kClass}},
          {"model_type", "gpt2"},
          {"vocab_size", options.vocab_size},
          {"n_positions", options.max_positions},
          {"n_embd", options.hidden_size},
          {"n_layer", options.num_layers},
          {"n_head", options.num_heads},
          {"n_inner", options.ffn_size},
          // Their gelu_new is the approximation by tanh that HfActivationName() calls otherwise.
          {"activation_function", options.activation == Activation::kGeluTanh
                                      ? "gelu_new"
                                      : internal::HfActivationName(options.activation)},
          {"layer_norm_epsilon", internal::ShortestDecimal(options.layer_norm_epsilon)},
          {"resid_pdrop", dropout},
          {"embd_pdrop", dropout},
          {"attn_pdrop", internal::ShortestDecimal(options.attention_dropout)},
          {"initializer_range", internal::ShortestDecimal(options.initializer_range)},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", true},
          {"bos_token_id", kEndOfText},
          {"eos_token_id", kEndOfText},
          {"torch_dtype", "float32"}};
}

// A byte as GPT-2's tokenizer writes it: itself where it is visible in Latin-1, else the next of
// the characters from U+0100 on.
std::vector<std::string> ByteCharacters() {
  std::vector<std::string> characters;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    AppendUtf8(is_visible ? byte : next++, characters.emplace_back());
  }
  return characters;
}

Json TokenizerJson() {
  const std::vector<std::string> bytes = ByteCharacters();
  Json vocabulary = Json::object();
  for (size_t byte = 0; byte < bytes.size(); ++byte) vocabulary[bytes[byte]] = byte;
  vocabulary[kMark] = kEndOfText;
  const Json mark = {{"SpecialToken", {{"id", kMark}, {"type_id", 0}}}};
  const auto sequence = [](const char* name) {
    return Json{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  const auto byte_level = [] {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", false},
                {"use_regex", false}};
  };
  Json json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = Json::array({Json{{"id", kEndOfText},
                                           {"content", kMark},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false},
                                           {"normalized", false},
                                           {"special", true}}});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = byte_level();
  json["post_processor"] = {{"type", "TemplateProcessing"}};
  json["post_processor"]["single"] = Json::array({mark, sequence("A")});
  json["post_processor"]["pair"] = Json::array({mark, sequence("A"), mark, sequence("B")});
  json["post_processor"]["special_tokens"] = {
      {kMark,
       {{"id", kMark}, {"ids", Json::array({kEndOfText})}, {"tokens", Json::array({kMark})}}}};
  json["decoder"] = byte_level();
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false}};
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = Json::array();
  return json;
}

}  // namespace

StatusOr<std::string> ExportLanguageModelToHuggingFace(const std::string& checkpoint_path,
                                                       const std::string& directory,
                                                       const HfExportOptions& options) {
  if (options.adapter) return internal::NoAdapters();
  DT_ASSIGN_OR_RETURN(const internal::TrainedLanguageModel trained,
                      internal::OpenTrainedLanguageModel(checkpoint_path));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<Gpt> model,
                      internal::LoadLanguageModel(trained, Device{}, DType::kFloat32));
  const Json tokenizer = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                          {"bos_token", kMark},
                          {"eos_token", kMark},
                          {"model_max_length", model->options().max_positions},
                          {"clean_up_tokenization_spaces", false}};
  const Json generation = {{"bos_token_id", kEndOfText},
                           {"eos_token_id", kEndOfText},
                           {"pad_token_id", kEndOfText},
                           {"max_length", model->options().max_positions}};
  const internal::HfFile files[] = {
      {"tokenizer.json", internal::JsonText(TokenizerJson()) + "\n"},
      {"tokenizer_config.json", internal::JsonText(tokenizer, 2) + "\n"},
      {"generation_config.json", internal::JsonText(generation, 2) + "\n"},
      {"config.json", internal::JsonText(ConfigJson(model->options()), 2) + "\n"}};
  const Weights weights(*model);
  DT_RETURN_IF_ERROR(
      internal::WriteHfFolder(directory, options.overwrite, weights.tensors(), files));
  return std::string(kClass);
}

}  // namespace dtrain
