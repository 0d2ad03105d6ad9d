/* A fake NVML with the few calls the sampler makes. It answers from the text file $FAKE_NVML_STATE, read anew in each call:
 *   gpu  INDEX  USED  RESERVED  UTIL%  PROCESSES   one line for each GPU; memory in MiB of 80 GiB
 *   fail FUNCTION CODE                             that call returns this nvmlReturn_t
 *   hang FUNCTION                                  that call never returns, as in a driver that is stuck
 * Built with the soname libnvidia-ml.so.1 and put first in LD_LIBRARY_PATH. Passing on it is not a test on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int there; u32 util, processes; u64 used, reserved; } gpu_t;
enum { OK = 0, BAD = 2, TOO_SMALL = 7, MAX = 16 };

static gpu_t gpus[MAX];
static const u64 MIB = 1024 * 1024, TOTAL = 81920;

static int enter(const char *function) {
    char line[256], name[64];
    int code = OK, index, value;
    gpu_t gpu;
    FILE *file = fopen(getenv("FAKE_NVML_STATE"), "r");
    memset(gpus, 0, sizeof gpus);
    while (file && fgets(line, sizeof line, file)) {
        gpu.there = 1;
        if (sscanf(line, "gpu %d %llu %llu %u %u", &index, &gpu.used, &gpu.reserved, &gpu.util, &gpu.processes) == 5)
            gpus[index % MAX] = gpu;
        else if (sscanf(line, "fail %63s %d", name, &value) == 2 && !strcmp(name, function))
            code = value;
        else if (sscanf(line, "hang %63s", name) == 1 && !strcmp(name, function))
            for (;;) pause();
    }
    if (file) fclose(file);
    return code;
}

#define ENTER() do { int code_ = enter(__func__); if (code_) return code_; } while (0)
#define DEVICE() ENTER(); if (!g || !g->there) return BAD

int nvmlInitWithFlags(u32 flags) { (void)flags; ENTER(); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "fake"; }
int nvmlDeviceGetCount_v2(u32 *count) {
    ENTER();
    *count = 0;
    for (int i = 0; i < MAX; i++) *count += gpus[i].there;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, gpu_t **handle) {
    ENTER();
    if (index >= MAX || !gpus[index].there) return BAD;
    *handle = &gpus[index];
    return OK;
}
int nvmlDeviceGetUUID(gpu_t *g, char *text, u32 size) { DEVICE(); snprintf(text, size, "GPU-fake-%d", (int)(g - gpus)); return OK; }
int nvmlDeviceGetName(gpu_t *g, char *text, u32 size) { DEVICE(); snprintf(text, size, "NVIDIA FAKE"); return OK; }
int nvmlDeviceGetMemoryInfo(gpu_t *g, u64 *out) { /* version 1: what is reserved counts as used */
    DEVICE();
    out[0] = TOTAL * MIB;
    out[2] = (g->used + g->reserved) * MIB;
    out[1] = out[0] - out[2];
    return OK;
}
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2_t;
int nvmlDeviceGetMemoryInfo_v2(gpu_t *g, memory_v2_t *out) {
    DEVICE();
    if (out->version != 0x02000028) return 25;
    out->total = TOTAL * MIB;
    out->reserved = g->reserved * MIB;
    out->used = g->used * MIB;
    out->free = out->total - out->reserved - out->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(gpu_t *g, u32 *out) { DEVICE(); out[0] = g->util; out[1] = 0; return OK; }
int nvmlDeviceGetPowerUsage(gpu_t *g, u32 *out) { DEVICE(); *out = 70000; return OK; }
int nvmlDeviceGetTemperature(gpu_t *g, u32 sensor, u32 *out) { (void)sensor; DEVICE(); *out = 35; return OK; }
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process_t;
int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t *g, u32 *count, process_t *out) {
    DEVICE();
    u32 room = *count;
    *count = g->processes;
    if (room < g->processes) return TOO_SMALL;
    for (u32 i = 0; i < g->processes; i++) out[i] = (process_t){4000 + i, MIB, 0, 0};
    return OK;
}
