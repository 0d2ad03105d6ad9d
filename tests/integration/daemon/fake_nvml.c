/* A fake NVIDIA management library (libnvidia-ml.so.1) for tests on machines without a GPU. It answers from a text file,
 * the scenario, named by $FAKE_NVML_STATE and read again whenever it has changed. Passing on it is not a test on a GPU.
 *
 * Numbers are decimal or 0x hex, names have '_' for a blank. Each line is one statement:
 *   driver VERSION
 *   gpu  INDEX key=value ...     leave an index out and the GPU is gone, and those behind it move up
 *        uuid= name= minor=      identity
 *        total= used= reserved=  bytes; version 1 of the memory call counts what is reserved as used
 *        util=                   percent; -1: not supported
 *        temp= power= limit=     Celsius, milliwatts
 *        clock= maxclock= throttle=   MHz, and the mask of clocks event reasons
 *        lost=1                  every call on it answers GPU_IS_LOST
 *        ecc= pending= failed= recovery=   uncorrected errors, row remaps, field 230
 *        mig=1 gi=               MIG mode
 *   mig  INDEX SLOT key=value    an instance of a divided card: uuid= total= used= gi=
 *   proc INDEX pid=N mem=BYTES type=C|G|M slot=   listed as compute, graphics or MPS; of a MIG instance with slot=
 *   event INDEX type=N data=N    type 8 is an XID. Lines added after an event set was made are delivered, in order
 *   fail  FUNCTION CODE [INDEX]  that call answers this nvmlReturn_t ("*": every call), of one GPU only with INDEX
 *   delay FUNCTION MS [INDEX]    that call takes this long
 *   hang  FUNCTION [INDEX]       that call never returns, as in a driver that is stuck
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
enum { OK = 0, BAD = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15, WRONG_VERSION = 25 };
enum { GPUS = 16, SLOTS = 7, PROCS = 512, EVENTS = 4096, RULES = 128, NONE = -1 };

typedef struct {
    int there, index, slot, util;
    char uuid[96], name[96];
    u32 minor, temp, power, limit, clock, maxclock, lost, recovery, pending, failed, mig, gi;
    u64 total, used, reserved, throttle, ecc;
} device_t;
typedef struct { int gpu, slot; u32 pid; u64 mem; char type; } proc_t;
typedef struct { int gpu; u64 type, data; } event_t;
typedef struct { char kind, function[64]; int value, gpu; } rule_t;
typedef struct { u64 mask[GPUS]; int seen; } set_t;

static struct {
    char driver[80];
    device_t gpus[GPUS], slots[GPUS][SLOTS];
    proc_t procs[PROCS];
    event_t events[EVENTS];
    rule_t rules[RULES];
    int np, ne, nr;
} S;
/* A handle is the address of one of these: the same for one index as long as the library is loaded. */
static char handles[GPUS][SLOTS + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat last;

static void set_field(device_t *g, const char *key, const char *value) {
    u64 n = strtoull(value, NULL, 0);
    struct { const char *key; u32 *field; } small[] = {
        {"minor", &g->minor}, {"temp", &g->temp}, {"power", &g->power}, {"limit", &g->limit}, {"clock", &g->clock},
        {"maxclock", &g->maxclock}, {"lost", &g->lost}, {"recovery", &g->recovery}, {"pending", &g->pending},
        {"failed", &g->failed}, {"mig", &g->mig}, {"gi", &g->gi}};
    struct { const char *key; u64 *field; } large[] = {
        {"total", &g->total}, {"used", &g->used}, {"reserved", &g->reserved}, {"throttle", &g->throttle}, {"ecc", &g->ecc}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (!strcmp(key, small[i].key)) *small[i].field = (u32)n;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (!strcmp(key, large[i].key)) *large[i].field = n;
    if (!strcmp(key, "util")) g->util = atoi(value);
    if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
    if (!strcmp(key, "name")) {
        snprintf(g->name, sizeof g->name, "%s", value);
        for (char *c = g->name; *c; c++) if (*c == '_') *c = ' ';
    }
}

static void new_device(device_t *g, int index, int slot) {
    *g = (device_t){.there = 1, .index = index, .slot = slot, .minor = index, .temp = 35, .power = 70000,
                    .limit = 700000, .clock = 345, .maxclock = 1980, .total = 85899345920ull, .gi = slot + 1};
    strcpy(g->name, "NVIDIA FAKE H200");
    if (slot == NONE) snprintf(g->uuid, sizeof g->uuid, "GPU-fa4e%04d-0000-4000-8000-%012d", index, index);
    else snprintf(g->uuid, sizeof g->uuid, "MIG-fa4e%02d%02d-0000-4000-8000-%012d", index, slot, index);
}

/* The words that are `key=value`, from `rest` on: of a device, or of a process or event. */
static void read_pairs(char **rest, device_t *g, proc_t *p, event_t *e) {
    char *word, *value;
    while ((word = strtok_r(NULL, " \t\r\n", rest))) {
        if (!(value = strchr(word, '='))) continue;
        *value++ = 0;
        u64 n = strtoull(value, NULL, 0);
        if (g) set_field(g, word, value);
        if (p && !strcmp(word, "pid")) p->pid = (u32)n;
        if (p && !strcmp(word, "mem")) p->mem = n;
        if (p && !strcmp(word, "slot")) p->slot = (int)n;
        if (p && !strcmp(word, "type")) p->type = *value;
        if (e && !strcmp(word, "type")) e->type = n;
        if (e && !strcmp(word, "data")) e->data = n;
    }
}

static void read_line(char *line) {
    char *rest, *word = strtok_r(line, " \t\r\n", &rest), *first = word ? strtok_r(NULL, " \t\r\n", &rest) : NULL;
    if (!word || *word == '#' || !first) return;
    if (!strcmp(word, "driver")) { snprintf(S.driver, sizeof S.driver, "%s", first); return; }
    if ((!strcmp(word, "fail") || !strcmp(word, "delay") || !strcmp(word, "hang")) && S.nr < RULES) {
        rule_t *rule = &S.rules[S.nr++];
        char *value = *word == 'h' ? "0" : strtok_r(NULL, " \t\r\n", &rest), *gpu = strtok_r(NULL, " \t\r\n", &rest);
        *rule = (rule_t){.kind = *word, .value = value ? atoi(value) : 0, .gpu = gpu ? atoi(gpu) : NONE};
        snprintf(rule->function, sizeof rule->function, "%s", first);
        return;
    }
    int index = atoi(first);
    if (index < 0 || index >= GPUS) return;
    if (!strcmp(word, "gpu")) {
        new_device(&S.gpus[index], index, NONE);
        read_pairs(&rest, &S.gpus[index], NULL, NULL);
    } else if (!strcmp(word, "mig")) {
        char *which = strtok_r(NULL, " \t\r\n", &rest);
        int slot = which ? atoi(which) % SLOTS : 0;
        new_device(&S.slots[index][slot], index, slot);
        read_pairs(&rest, &S.slots[index][slot], NULL, NULL);
    } else if (!strcmp(word, "proc") && S.np < PROCS) {
        proc_t *p = &S.procs[S.np++];
        *p = (proc_t){.gpu = index, .slot = NONE, .type = 'C'};
        read_pairs(&rest, NULL, p, NULL);
    } else if (!strcmp(word, "event") && S.ne < EVENTS) {
        event_t *e = &S.events[S.ne++];
        *e = (event_t){.gpu = index};
        read_pairs(&rest, NULL, NULL, e);
    }
}

/* GPUs that are left out leave no gap: NVML counts what is there. The device keeps the index its line named. */
static void load(void) {
    char line[2048];
    struct stat now;
    const char *path = getenv("FAKE_NVML_STATE");
    if (!path || stat(path, &now)) { memset(&S, 0, sizeof S); return; }
    if (now.st_mtim.tv_sec == last.st_mtim.tv_sec && now.st_mtim.tv_nsec == last.st_mtim.tv_nsec &&
        now.st_ino == last.st_ino && now.st_size == last.st_size) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    last = now;
    memset(&S, 0, sizeof S);
    strcpy(S.driver, "580.95.05");
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
}

/* Every call begins here: the rules that name it, and only then the lock, so that a call that hangs hangs alone. */
static int enter(const char *function, int gpu) {
    int code = OK, delay = 0, hang = 0;
    pthread_mutex_lock(&lock);
    load();
    for (int i = 0; i < S.nr; i++) {
        rule_t *rule = &S.rules[i];
        if (strcmp(rule->function, "*") && strcmp(rule->function, function)) continue;
        if (rule->gpu != NONE && rule->gpu != gpu) continue;
        if (rule->kind == 'f') code = rule->value;
        if (rule->kind == 'd') delay = rule->value;
        if (rule->kind == 'h') hang = 1;
    }
    pthread_mutex_unlock(&lock);
    while (hang) pause();
    if (delay) usleep((useconds_t)delay * 1000);
    return code;
}

static device_t *at_index(u32 index) {
    for (int i = 0; i < GPUS; i++)
        if (S.gpus[i].there && index-- == 0) return &S.gpus[i];
    return NULL;
}
static void *handle_of(device_t *g) { return &handles[g->index][g->slot + 1]; }
static device_t *device_of(void *handle) {
    long place = (char *)handle - &handles[0][0];
    if (!handle || place < 0 || place >= (long)sizeof handles) return NULL;
    int index = (int)(place / (SLOTS + 1)), slot = (int)(place % (SLOTS + 1)) - 1;
    device_t *g = slot == NONE ? &S.gpus[index] : &S.slots[index][slot];
    return g->there ? g : NULL;
}

#define API __attribute__((visibility("default")))
#define ENTER() do { int code_ = enter(__func__, NONE); if (code_) return code_; } while (0)
#define DEVICE(g) \
    device_t *g = device_of(handle); \
    do { int code_ = enter(__func__, g ? g->index : NONE); if (code_) return code_; } while (0); \
    if (!(g = device_of(handle))) return BAD; \
    if (S.gpus[g->index].lost) return LOST

API int nvmlInitWithFlags(u32 flags) { (void)flags; ENTER(); return OK; }
API int nvmlShutdown(void) { ENTER(); return OK; }
API const char *nvmlErrorString(int code) { (void)code; return "fake"; }
API int nvmlSystemGetDriverVersion(char *text, u32 size) { ENTER(); snprintf(text, size, "%s", S.driver); return OK; }
API int nvmlDeviceGetCount_v2(u32 *count) {
    ENTER();
    *count = 0;
    for (int i = 0; i < GPUS; i++) *count += (u32)S.gpus[i].there;
    return OK;
}
API int nvmlDeviceGetHandleByIndex_v2(u32 index, void **handle) {
    int code = enter(__func__, (int)index);
    if (code) return code;
    device_t *g = at_index(index);
    if (!g) return BAD;
    *handle = handle_of(g);
    return g->lost ? LOST : OK;
}
API int nvmlDeviceGetUUID(void *handle, char *text, u32 size) { DEVICE(g); snprintf(text, size, "%s", g->uuid); return OK; }
API int nvmlDeviceGetName(void *handle, char *text, u32 size) { DEVICE(g); snprintf(text, size, "%s", g->name); return OK; }
API int nvmlDeviceGetMinorNumber(void *handle, u32 *minor) { DEVICE(g); *minor = g->minor; return OK; }
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
API int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *out) {
    DEVICE(g);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", g->index + 1);
    return OK;
}
API int nvmlDeviceGetMemoryInfo(void *handle, u64 *out) {
    DEVICE(g);
    out[0] = g->total;
    out[2] = g->used + g->reserved;
    out[1] = out[0] - out[2];
    return OK;
}
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2_t;
API int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *out) {
    DEVICE(g);
    if (out->version != 0x02000028) return WRONG_VERSION;
    *out = (memory_v2_t){out->version, g->total, g->reserved, g->total - g->reserved - g->used, g->used};
    return OK;
}
API int nvmlDeviceGetUtilizationRates(void *handle, u32 *out) {
    DEVICE(g);
    if (g->util < 0 || g->slot != NONE) return NOT_SUPPORTED;
    out[0] = (u32)g->util;
    out[1] = 0;
    return OK;
}
API int nvmlDeviceGetPowerUsage(void *handle, u32 *out) { DEVICE(g); *out = g->power; return g->slot == NONE ? OK : NOT_SUPPORTED; }
API int nvmlDeviceGetEnforcedPowerLimit(void *handle, u32 *out) { DEVICE(g); *out = g->limit; return OK; }
typedef struct { u32 version, sensor; int celsius; } temperature_t;
API int nvmlDeviceGetTemperatureV(void *handle, temperature_t *out) {
    DEVICE(g);
    if (out->version != 0x0100000C) return WRONG_VERSION;
    out->celsius = (int)g->temp;
    return OK;
}
API int nvmlDeviceGetTemperature(void *handle, u32 sensor, u32 *out) { (void)sensor; DEVICE(g); *out = g->temp; return OK; }
API int nvmlDeviceGetClockInfo(void *handle, u32 kind, u32 *out) { (void)kind; DEVICE(g); *out = g->clock; return OK; }
API int nvmlDeviceGetMaxClockInfo(void *handle, u32 kind, u32 *out) { (void)kind; DEVICE(g); *out = g->maxclock; return OK; }
API int nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *out) { DEVICE(g); *out = g->throttle; return OK; }
API int nvmlDeviceGetMemoryErrorCounter(void *handle, u32 type, u32 counter, u32 place, u64 *out) {
    (void)counter;
    DEVICE(g);
    *out = type && place == 2 ? g->ecc : 0; /* of the device memory; caches have none */
    return OK;
}
API int nvmlDeviceGetRemappedRows(void *handle, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    DEVICE(g);
    *corrected = *uncorrected = 0;
    *pending = g->pending;
    *failed = g->failed;
    return OK;
}
typedef struct { u32 field, scope; long long at, latency; int type, code; u64 value; } field_t;
API int nvmlDeviceGetFieldValues(void *handle, int count, field_t *out) {
    DEVICE(g);
    for (int i = 0; i < count; i++) {
        out[i].code = out[i].field == 230 ? OK : NOT_SUPPORTED;
        out[i].type = 1;
        out[i].value = g->recovery;
    }
    return OK;
}
API int nvmlDeviceGetMigMode(void *handle, u32 *current, u32 *pending) { DEVICE(g); *current = *pending = g->mig; return OK; }
API int nvmlDeviceGetMaxMigDeviceCount(void *handle, u32 *count) { DEVICE(g); *count = SLOTS; return OK; }
API int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, u32 slot, void **out) {
    DEVICE(g);
    if (slot >= SLOTS || !S.slots[g->index][slot].there) return NOT_FOUND;
    *out = handle_of(&S.slots[g->index][slot]);
    return OK;
}
API int nvmlDeviceGetGpuInstanceId(void *handle, u32 *id) { DEVICE(g); *id = g->gi; return OK; }

typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process_t;
static int processes(device_t *g, char type, u32 *count, process_t *out) {
    u32 room = out ? *count : 0, found = 0;
    for (int i = 0; i < S.np; i++) {
        proc_t *p = &S.procs[i];
        if (p->gpu != g->index || p->type != type || (g->slot != NONE && p->slot != g->slot)) continue;
        if (found < room) out[found] = (process_t){p->pid, p->mem, ~0u, ~0u};
        found++;
    }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, u32 *n, process_t *out) { DEVICE(g); return processes(g, 'C', n, out); }
API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, u32 *n, process_t *out) { DEVICE(g); return processes(g, 'G', n, out); }
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, u32 *n, process_t *out) { DEVICE(g); return processes(g, 'M', n, out); }

typedef struct { void *device; u64 type, data; u32 gpu_instance, compute_instance; } event_data_t;
static const u64 SUPPORTED = 0x1 | 0x2 | 0x8 | 0x100;
API int nvmlDeviceGetSupportedEventTypes(void *handle, u64 *mask) { DEVICE(g); (void)g; *mask = SUPPORTED; return OK; }
API int nvmlEventSetCreate(set_t **set) {
    ENTER();
    *set = calloc(1, sizeof **set);
    (*set)->seen = S.ne;
    return OK;
}
API int nvmlEventSetFree(set_t *set) { ENTER(); free(set); return OK; }
API int nvmlDeviceRegisterEvents(void *handle, u64 mask, set_t *set) {
    DEVICE(g);
    if (mask & ~SUPPORTED) return NOT_SUPPORTED; /* as the driver does: one bit it lacks fails the call */
    set->mask[g->index] |= mask;
    return OK;
}
API int nvmlEventSetWait_v2(set_t *set, event_data_t *out, u32 wait_ms) {
    for (u32 waited = 0;; waited += 5) {
        ENTER();
        while (set->seen < S.ne) {
            event_t *e = &S.events[set->seen++];
            if (!(set->mask[e->gpu] & e->type)) continue;
            *out = (event_data_t){&handles[e->gpu][0], e->type, e->data, ~0u, ~0u};
            return OK;
        }
        if (waited >= wait_ms) return TIMEOUT;
        usleep(5000);
    }
}
