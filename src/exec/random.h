/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of verification. */
#ifndef OPF_EXEC_RANDOM_H
#define OPF_EXEC_RANDOM_H

#include "base/random.h"

#endif
