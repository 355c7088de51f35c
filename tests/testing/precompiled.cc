// precompiled.cc - an empty source: its target holds the precompiled headers of the tests.
// SPDX-License-Identifier: Apache-2.0
