/* SPDX-License-Identifier: Apache-2.0 */
/* What fusion and planning have to agree on about operators on rows. */
#ifndef OPF_OPS_ROWS_H
#define OPF_OPS_ROWS_H

/* Softmax over so few elements fills no vector: many rows are computed at a time, but only where no steps go along, so
   fusion leaves them alone. */
enum { OPF_SHORT_ROW = 16 };

#endif
