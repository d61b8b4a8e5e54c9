/* What the two files of nvidia-smi share. */
#ifndef BERTH_SANDBOX_SMI_H
#define BERTH_SANDBOX_SMI_H

#include "nvml.h"
#include <stddef.h>

enum { EXIT_BAD_ARGUMENT = 2, EXIT_NO_DEVICE = 6, EXIT_DRIVER = 9, EXIT_LOST = 15 };

typedef int reader(u32 index, device *d, char *out, size_t size);
typedef struct { const char *name, *unit, *tag; reader *read; } field;
extern const field gpu_fields[];
extern const int gpu_field_count;
extern int status; /* exit code so far */

reader f_name, f_uuid, f_bus, f_temp, f_power, f_used, f_total, f_util;
void text_of(const field *f, u32 index, device *d, int units, char *out, size_t size);

#endif
