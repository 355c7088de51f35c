// html.h - text and data as parts of a page, where they can never become markup.
// SPDX-License-Identifier: Apache-2.0
//
// Every text that comes from a run goes through Html(). Nothing else may put it into a page.
#ifndef DTRAIN_REPORT_HTML_H_
#define DTRAIN_REPORT_HTML_H_

#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// The text for the content of an element, or for a value of an attribute in double quotes. Control
// characters and bytes that are no UTF-8 become U+FFFD; what is longer than 2,000 bytes is cut and
// ends in "...".
std::string Html(std::string_view text);

// A JSON text for <script type="application/json">: "<", ">", "&", U+2028 and U+2029 are escaped.
std::string JsonForScript(std::string_view json);
// A text in quotes, for such a JSON text.
std::string JsonQuoted(std::string_view text);

// A source of the content security policy, 'sha256-...', of a digest in hexadecimal digits.
std::string PolicySource(std::string_view hex_digest);

// A cell of a table. Its text is escaped.
struct Cell {
  std::string text = {};
  std::string sort = {};  // what a table of runs is sorted by; "" is the text
};

struct TableOptions {
  std::string_view name = "";  // the class of the table
  std::string_view caption = "";
  bool is_sortable = false;
};

// A table whose first column names the rows. A head that begins with ">" is one of numbers.
std::string TableHtml(const std::vector<std::string>& heads,
                      const std::vector<std::vector<Cell>>& rows, const TableOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_REPORT_HTML_H_
