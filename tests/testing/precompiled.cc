// precompiled.cc - an empty program: its target holds the precompiled headers of the tests.
// SPDX-License-Identifier: Apache-2.0
int main() { return 0; }
