// kernel_name.cc - reads ELF symbol tables.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/kernel_name.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

namespace dtrain::host_executor {
namespace {

template <typename T>
std::vector<T> ReadTable(std::ifstream& file, uint64_t offset, uint64_t bytes) {
  std::vector<T> table(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(table.data()),
            static_cast<std::streamsize>(table.size() * sizeof(T)));
  return table;
}

// Empty where there is none.
std::string SymbolAt(const char* path, uintptr_t address) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header{};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (!file) return "";
  const auto sections =
      ReadTable<ElfW(Shdr)>(file, header.e_shoff, uint64_t{header.e_shnum} * sizeof(ElfW(Shdr)));
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
    for (const auto& symbol : ReadTable<ElfW(Sym)>(file, section.sh_offset, section.sh_size)) {
      if ((symbol.st_info & 0xf) != STT_FUNC || symbol.st_value != address) continue;
      const ElfW(Shdr)& names = sections.at(section.sh_link);
      file.seekg(static_cast<std::streamoff>(names.sh_offset + symbol.st_name));
      std::string name;
      std::getline(file, name, '\0');
      return name;
    }
  }
  return "";
}

// "void dtrain::(anonymous namespace)::ScaleKernel<float>(dtrain::(...)::ScaleArgs)" without what
// goes without saying.
std::string Shorten(std::string name) {
  for (const std::string noise : {"dtrain::", "(anonymous namespace)::", "void "}) {
    for (size_t at = name.find(noise); at != std::string::npos; at = name.find(noise)) {
      name.erase(at, noise.size());
    }
  }
  return name.substr(0, name.rfind('('));
}

}  // namespace

std::string KernelName(const void* address) {
  Dl_info info{};
  void* map = nullptr;
  std::string symbol;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) != 0) {
    const auto base = static_cast<uintptr_t>(static_cast<const link_map*>(map)->l_addr);
    const bool is_program = static_cast<const link_map*>(map)->l_name[0] == '\0';
    symbol = SymbolAt(is_program ? "/proc/self/exe" : info.dli_fname,
                      reinterpret_cast<uintptr_t>(address) - base);
  }
  if (symbol.empty()) {
    std::ostringstream text;
    text << address;
    return text.str();
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? Shorten(readable.get()) : symbol;
}

}  // namespace dtrain::host_executor
