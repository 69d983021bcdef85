/* The two steps that every event takes, for the everyday ones: see messages/quick.py, which says what they are for and
 * does without this file where there is no compiler.
 *
 * Both say no (False, None) whenever something is not plainly good, and never raise for what an event says: then the way
 * through msgspec and messages/event.py decides, and has the words for it. So what is accepted here is a part of what is
 * accepted there, and comes to the same (tests/properties/test_quick.py). Bytes are a peer's: each is looked at only
 * after it is known to be there.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEAD_BYTES_MAX 768     /* of an encoded event without its body */
#define ATTRIBUTES_MAX 64      /* of a plain event */
#define TEXT_BYTES_MAX 1024    /* of one value of it */
#define KEY_LENGTH_MAX 1024    /* messages/event.py */
#define BODY_BYTES_MAX 4194304 /* there, too */
#define KEPT_BYTES_MAX 2097152 /* of an outbox that is empty */

enum { FIELDS = 0x97, NIL = 0xc0, FALSE_ = 0xc2, TRUE_ = 0xc3, DOUBLE = 0xcb };

/* Whether all of it is ASCII, and none of it NUL. */
static int
is_plain_text(const uint8_t *text, Py_ssize_t length)
{
    uint8_t bits = 0, least = 0xff;
    for (Py_ssize_t at = 0; at < length; at++) {
        bits |= text[at];
        least = text[at] < least ? text[at] : least;
    }
    return length == 0 || (bits < 0x80 && least > 0);
}

/* Encoding ------------------------------------------------------------------------------------------------------- */

static uint8_t *
put_big_endian(uint8_t *to, uint64_t value, int bytes)
{
    for (int at = bytes - 1; at >= 0; at--)
        *to++ = (uint8_t)(value >> (8 * at));
    return to;
}

static uint8_t *
put_sized(uint8_t *to, uint64_t value, uint8_t tag)
{
    /* As one, two, four or eight bytes behind a tag: those of the four sizes follow one another. */
    int size = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
    *to++ = (uint8_t)(tag + size);
    return put_big_endian(to, value, 1 << size);
}

static uint8_t *
put_int(uint8_t *to, int64_t value)
{
    if (value >= 0) {
        if (value < 0x80) {
            *to++ = (uint8_t)value;
            return to;
        }
        return put_sized(to, (uint64_t)value, 0xcc);
    }
    if (value >= -32) {
        *to++ = (uint8_t)value;
        return to;
    }
    int size = value >= INT8_MIN ? 0 : value >= INT16_MIN ? 1 : value >= INT32_MIN ? 2 : 3;
    *to++ = (uint8_t)(0xd0 + size);
    return put_big_endian(to, (uint64_t)value, 1 << size);
}

/* A text, if it is plain and there is room up to `end`; else NULL. */
static uint8_t *
put_text(uint8_t *to, const uint8_t *end, PyObject *text, Py_ssize_t length_max)
{
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text))
        return NULL;
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    const uint8_t *data = PyUnicode_1BYTE_DATA(text);
    if (length > length_max || to + 3 + length > end || memchr(data, 0, (size_t)length) != NULL)
        return NULL;
    if (length < 32)
        *to++ = (uint8_t)(0xa0 | length);
    else
        to = put_sized(to, (uint64_t)length, 0xd9);
    memcpy(to, data, (size_t)length);
    return to + length;
}

static uint8_t *
put_value(uint8_t *to, const uint8_t *end, PyObject *value)
{
    if (to + 9 > end)
        return NULL;
    if (PyUnicode_CheckExact(value))
        return put_text(to, end, value, TEXT_BYTES_MAX);
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        if (!isfinite(number))
            return NULL;
        memcpy(&bits, &number, sizeof bits);
        *to++ = DOUBLE;
        return put_big_endian(to, bits, 8);
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow ? NULL : put_int(to, number);
    }
    if (value != Py_True && value != Py_False && value != Py_None)
        return NULL;
    *to++ = value == Py_None ? NIL : value == Py_True ? TRUE_ : FALSE_;
    return to;
}

/* All of an event but its body, if it is plainly good: how many bytes that took of HEAD_BYTES_MAX. Else 0, or -1 for an
 * error. */
static Py_ssize_t
put_head(uint8_t *head, PyObject *names, PyObject *key, PyObject *time_ns, PyObject *attributes, PyObject *body)
{
    if (!PyDict_CheckExact(attributes) || !PyBytes_CheckExact(body) || !PyLong_CheckExact(time_ns))
        return 0;
    Py_ssize_t many = PyDict_GET_SIZE(attributes), size = PyBytes_GET_SIZE(body);
    int overflow;
    int64_t time = PyLong_AsLongLongAndOverflow(time_ns, &overflow);
    if (many > ATTRIBUTES_MAX || size > BODY_BYTES_MAX || overflow || time < 0)
        return 0;

    uint8_t *to = head;
    const uint8_t *end = head + HEAD_BYTES_MAX - 32; /* what stands around key and attributes */
    *to++ = FIELDS;
    if (key == Py_None)
        *to++ = NIL;
    else if ((to = put_text(to, end, key, KEY_LENGTH_MAX)) == NULL)
        return 0;
    *to++ = NIL;
    *to++ = NIL;
    to = put_int(to, time);
    *to++ = FALSE_;
    if (many < 16)
        *to++ = (uint8_t)(0x80 | many);
    else {
        *to++ = 0xde;
        to = put_big_endian(to, (uint64_t)many, 2);
    }
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, &name, &value)) {
        if (!PyUnicode_CheckExact(name) || (to = put_text(to, end, name, TEXT_BYTES_MAX)) == NULL)
            return 0;
        int known = PySet_Contains(names, name); /* of exact strings: nobody's code is called */
        if (known < 0)
            return -1;
        if (!known || (to = put_value(to, end, value)) == NULL)
            return 0;
    }
    return put_sized(to, (uint64_t)size, 0xc4) - head;
}

/* The outbox ------------------------------------------------------------------------------------------------------- */

/* Events in a row, as the bytes that their packets will be. What is taken is taken from the beginning, and the room that
 * it leaves is used again when there is none at the end. */
typedef struct {
    PyObject_HEAD
    uint8_t *bytes;
    size_t head, tail, room;
    uint32_t *sizes;
    size_t first, last, places;
    int64_t posted_bytes;
} Outbox;

/* Room for one more at the end of a row of things so wide, which is moved or made larger for that. */
static int
make_room(void **row, size_t *begin, size_t *end, size_t *room, size_t more, size_t width)
{
    if (*end + more <= *room)
        return 1;
    size_t used = *end - *begin;
    uint8_t *from = (uint8_t *)*row + *begin * width;
    if (used + more <= *room / 2)
        memmove(*row, from, used * width);
    else {
        size_t larger = 2 * *room > used + more ? 2 * *room : used + more;
        uint8_t *made = PyMem_Malloc(larger * width);
        if (made == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        if (used)
            memcpy(made, from, used * width);
        PyMem_Free(*row);
        *row = made;
        *room = larger;
    }
    *begin = 0;
    *end = used;
    return 1;
}

static int
outbox_reserve(Outbox *box, size_t size)
{
    return make_room((void **)&box->bytes, &box->head, &box->tail, &box->room, size, 1)
           && make_room((void **)&box->sizes, &box->first, &box->last, &box->places, 1, sizeof *box->sizes);
}

static void
outbox_close(Outbox *box, size_t size)
{
    box->tail += size;
    box->sizes[box->last++] = (uint32_t)size;
    box->posted_bytes += (int64_t)size;
}

PyDoc_STRVAR(post_doc, "post(names, key, time_ns, attributes, body): put an event at the end; whether it is an everyday one");

static PyObject *
outbox_post(Outbox *box, PyObject *const *given, Py_ssize_t count)
{
    if (count != 5 || !PyAnySet_Check(given[0]))
        return PyErr_Format(PyExc_TypeError, "post(names, key, time_ns, attributes, body)");
    PyObject *body = given[4];
    size_t size = PyBytes_CheckExact(body) ? (size_t)PyBytes_GET_SIZE(body) : 0;
    if (size > BODY_BYTES_MAX)
        Py_RETURN_FALSE;
    if (!outbox_reserve(box, HEAD_BYTES_MAX + size))
        return NULL;
    uint8_t *head = box->bytes + box->tail;
    Py_ssize_t length = put_head(head, given[0], given[1], given[2], given[3], body);
    if (length < 0)
        return NULL;
    if (length == 0)
        Py_RETURN_FALSE;
    memcpy(head + length, PyBytes_AS_STRING(body), size);
    outbox_close(box, (size_t)length + size);
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(append_doc, "append(encoded): put an event that is encoded already at the end");

static PyObject *
outbox_append(Outbox *box, PyObject *encoded)
{
    if (!PyBytes_CheckExact(encoded) || PyBytes_GET_SIZE(encoded) == 0 || PyBytes_GET_SIZE(encoded) > INT32_MAX)
        return PyErr_Format(PyExc_TypeError, "append(bytes)");
    size_t size = (size_t)PyBytes_GET_SIZE(encoded);
    if (!outbox_reserve(box, size))
        return NULL;
    memcpy(box->bytes + box->tail, PyBytes_AS_STRING(encoded), size);
    outbox_close(box, size);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(take_doc, "take(events_max, bytes_max): sizes and bytes of those at the beginning that fit, of one at least");

static PyObject *
outbox_take(Outbox *box, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "take(events_max, bytes_max)");
    size_t events_max = PyLong_AsSize_t(given[0]), bytes_max = PyLong_AsSize_t(given[1]);
    if (PyErr_Occurred())
        return NULL;
    if (box->first == box->last)
        return PyErr_Format(PyExc_IndexError, "take from an empty outbox");
    size_t many = 1, bytes = box->sizes[box->first];
    while (many < events_max && box->first + many < box->last) {
        size_t more = bytes + box->sizes[box->first + many];
        if (more > bytes_max)
            break;
        bytes = more;
        many++;
    }
    PyObject *sizes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * many));
    PyObject *blob = PyBytes_FromStringAndSize((const char *)box->bytes + box->head, (Py_ssize_t)bytes);
    PyObject *taken = sizes != NULL && blob != NULL ? PyTuple_Pack(2, sizes, blob) : NULL;
    if (taken != NULL) {
        uint8_t *to = (uint8_t *)PyBytes_AS_STRING(sizes);
        for (size_t at = box->first; at < box->first + many; at++)
            for (int byte = 0; byte < 4; byte++)
                *to++ = (uint8_t)(box->sizes[at] >> (8 * byte));
        box->head += bytes;
        box->first += many;
        if (box->first == box->last) {
            box->head = box->tail = box->first = box->last = 0;
            if (box->room > KEPT_BYTES_MAX) { /* it was full once, and need not be so again */
                PyMem_Free(box->bytes);
                box->bytes = NULL;
                box->room = 0;
            }
        }
    }
    Py_XDECREF(sizes);
    Py_XDECREF(blob);
    return taken;
}

static Py_ssize_t
outbox_length(Outbox *box)
{
    return (Py_ssize_t)(box->last - box->first);
}

static void
outbox_dealloc(Outbox *box)
{
    PyTypeObject *type = Py_TYPE(box);
    PyMem_Free(box->bytes);
    PyMem_Free(box->sizes);
    type->tp_free(box);
    Py_DECREF(type);
}

static PyMethodDef outbox_methods[] = {
    {"post", (PyCFunction)(void (*)(void))outbox_post, METH_FASTCALL, post_doc},
    {"append", (PyCFunction)outbox_append, METH_O, append_doc},
    {"take", (PyCFunction)(void (*)(void))outbox_take, METH_FASTCALL, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef outbox_members[] = {
    {"posted_bytes", T_LONGLONG, offsetof(Outbox, posted_bytes), READONLY, "all that was ever put in"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot outbox_slots[] = {
    {Py_tp_doc, "Events in a row that are to become packets."},
    {Py_tp_methods, outbox_methods},
    {Py_tp_members, outbox_members},
    {Py_tp_dealloc, outbox_dealloc},
    {Py_sq_length, outbox_length},
    {0, NULL},
};

static PyType_Spec outbox_spec = {
    "gossamer.messages._quick.Outbox", sizeof(Outbox), 0, Py_TPFLAGS_DEFAULT, outbox_slots,
};

PyDoc_STRVAR(pair_doc, "pair(kind, one, other): a tuple of a kind that is made of two");

static PyObject *
pair(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    if (count != 3 || !PyType_Check(given[0]) || !PyType_IsSubtype((PyTypeObject *)given[0], &PyTuple_Type))
        return PyErr_Format(PyExc_TypeError, "pair(kind, one, other)");
    PyTypeObject *kind = (PyTypeObject *)given[0];
    PyObject *made = kind->tp_alloc(kind, 2);
    if (made != NULL) {
        PyTuple_SET_ITEM(made, 0, Py_NewRef(given[1]));
        PyTuple_SET_ITEM(made, 1, Py_NewRef(given[2]));
    }
    return made;
}

PyDoc_STRVAR(number_doc, "number(field, events, stream, seqs): give each event its id, as a bare pair, in that field of it");

static PyObject *
number(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    descrsetfunc set = count == 4 ? Py_TYPE(given[0])->tp_descr_set : NULL;
    if (set == NULL || !PyList_CheckExact(given[1]) || !PyList_CheckExact(given[3])
        || PyList_GET_SIZE(given[1]) != PyList_GET_SIZE(given[3]))
        return PyErr_Format(PyExc_TypeError, "number(field, events, stream, seqs), as many seqs as events");
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(given[1]); at++) {
        PyObject *id = PyTuple_Pack(2, given[2], PyList_GET_ITEM(given[3], at));
        int failed = id == NULL || set(given[0], PyList_GET_ITEM(given[1], at), id);
        Py_XDECREF(id);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* Decoding ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
} Reader;

static uint64_t
big_endian(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int at = 0; at < bytes; at++)
        value = value << 8 | from[at];
    return value;
}

/* Whether a number of so many bytes follows, which is taken. */
static int
take(Reader *reader, int bytes, uint64_t *value)
{
    if (reader->end - reader->at < bytes)
        return 0;
    *value = big_endian(reader->at, bytes);
    reader->at += bytes;
    return 1;
}

/* Whether a plain text with this tag follows, which is taken. */
static int
take_text(Reader *reader, uint8_t tag, const uint8_t **text, Py_ssize_t *length)
{
    uint64_t size;
    if ((tag & 0xe0) == 0xa0)
        size = tag & 0x1f;
    else if ((tag != 0xd9 && tag != 0xda) || !take(reader, tag == 0xd9 ? 1 : 2, &size))
        return 0;
    if ((uint64_t)(reader->end - reader->at) < size || !is_plain_text(reader->at, (Py_ssize_t)size))
        return 0;
    *text = reader->at;
    *length = (Py_ssize_t)size;
    reader->at += size;
    return 1;
}

/* An attribute as the event before had it: most often this one has the same name, and often the same text. */
typedef struct {
    const uint8_t *name;
    Py_ssize_t length;
    PyObject *key;  /* the name, if it is wanted */
    PyObject *text; /* the value, if it was one */
} Before;

static PyObject *
text_of(Before *before, const uint8_t *text, Py_ssize_t length)
{
    PyObject *known = before->text;
    if (known == NULL || PyUnicode_GET_LENGTH(known) != length
        || memcmp(PyUnicode_1BYTE_DATA(known), text, (size_t)length) != 0) {
        known = PyUnicode_New(length, 127);
        if (known == NULL)
            return NULL;
        memcpy(PyUnicode_1BYTE_DATA(known), text, (size_t)length);
        Py_XSETREF(before->text, known);
    }
    return Py_NewRef(known);
}

/* The value that follows, made if it is wanted: 1, 0 if it is not plainly good, -1 for an error. */
static int
take_value(Reader *reader, Before *before, PyObject **value)
{
    uint64_t bits;
    const uint8_t *text;
    Py_ssize_t length;
    int wanted = before->key != NULL;
    *value = NULL;
    if (!take(reader, 1, &bits))
        return 0;
    uint8_t tag = (uint8_t)bits;
    if (tag == NIL || tag == FALSE_ || tag == TRUE_) {
        *value = wanted ? Py_NewRef(tag == NIL ? Py_None : tag == TRUE_ ? Py_True : Py_False) : NULL;
        return 1;
    }
    if (tag == DOUBLE) {
        double number;
        if (!take(reader, 8, &bits))
            return 0;
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number))
            return 0;
        *value = wanted ? PyFloat_FromDouble(number) : NULL;
    } else if (tag < 0x80 || tag >= 0xe0) {
        *value = wanted ? PyLong_FromLong((int8_t)tag) : NULL;
    } else if (tag >= 0xcc && tag <= 0xcf) {
        if (!take(reader, 1 << (tag - 0xcc), &bits) || bits > INT64_MAX)
            return 0;
        *value = wanted ? PyLong_FromLongLong((int64_t)bits) : NULL;
    } else if (tag >= 0xd0 && tag <= 0xd3) {
        int size = 1 << (tag - 0xd0), unused = 64 - 8 * size;
        if (!take(reader, size, &bits))
            return 0;
        int64_t number = (int64_t)(bits << unused) >> unused;
        *value = wanted ? PyLong_FromLongLong(number) : NULL;
    } else if (take_text(reader, tag, &text, &length)) {
        *value = wanted ? text_of(before, text, length) : NULL;
    } else
        return 0;
    return wanted && *value == NULL ? -1 : 1;
}

/* A name that follows, which must be known (of names that are None all are); whether it is wanted is found out when it was not that of the last event. */
static int
take_name(Reader *reader, Before *before, PyObject *names, PyObject *wanted)
{
    uint64_t tag;
    const uint8_t *name;
    Py_ssize_t length;
    if (!take(reader, 1, &tag))
        return 0;
    if (before->name != NULL && (tag & 0xe0) == 0xa0 && before->length == (Py_ssize_t)(tag & 0x1f)
        && reader->end - reader->at >= before->length
        && memcmp(before->name, reader->at, (size_t)before->length) == 0) {
        reader->at += before->length;
        return 1;
    }
    if (!take_text(reader, (uint8_t)tag, &name, &length))
        return 0;
    PyObject *key = PyUnicode_FromStringAndSize((const char *)name, length);
    if (key == NULL)
        return -1;
    int known = names == Py_None ? 1 : PySet_Contains(names, key);
    int asked = known == 1 ? PySet_Contains(wanted, key) : 0;
    if (known != 1 || asked < 0) {
        Py_DECREF(key);
        return known < 0 || asked < 0 ? -1 : 0;
    }
    before->name = name;
    before->length = length;
    Py_XSETREF(before->key, asked ? key : NULL);
    if (!asked)
        Py_DECREF(key);
    Py_CLEAR(before->text);
    return 1;
}

/* One event, of which nothing may be left: its wanted attributes are put into a dictionary. */
static int
take_event(Reader *reader, Before *before, PyObject *names, PyObject *wanted, PyObject *attributes)
{
    static const uint8_t start[] = {FIELDS, NIL, NIL, NIL}; /* without a key, a rank, and anything about others */
    uint64_t tag, size;
    if (reader->end - reader->at < 4 || memcmp(reader->at, start, 4) != 0)
        return 0;
    reader->at += 4;
    if (!take(reader, 1, &tag))
        return 0;
    if (tag >= 0x80 && (tag < 0xcc || tag > 0xcf || !take(reader, 1 << (tag - 0xcc), &size) || size > INT64_MAX))
        return 0;
    if (!take(reader, 1, &tag) || tag != FALSE_ || !take(reader, 1, &tag))
        return 0;
    if ((tag & 0xf0) == 0x80)
        size = tag & 0x0f;
    else if (tag != 0xde || !take(reader, 2, &size) || size > ATTRIBUTES_MAX)
        return 0;
    for (uint64_t at = 0; at < size; at++) {
        PyObject *value;
        int found = take_name(reader, &before[at], names, wanted);
        if (found == 1)
            found = take_value(reader, &before[at], &value);
        if (found != 1)
            return found;
        if (value != NULL) {
            int failed = PyDict_SetItem(attributes, before[at].key, value);
            Py_DECREF(value);
            if (failed)
                return -1;
        }
    }
    if (!take(reader, 1, &tag) || tag < 0xc4 || tag > 0xc6 || !take(reader, 1 << (tag - 0xc4), &size))
        return 0;
    return size <= BODY_BYTES_MAX && (uint64_t)(reader->end - reader->at) == size;
}

PyDoc_STRVAR(loose_doc, "loose(names, wanted, sizes, blob): the wanted attributes of each event, or None");

static PyObject *
loose(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    if (count != 4 || !(given[0] == Py_None || PyAnySet_Check(given[0])) || !PyAnySet_Check(given[1]) || !PyBytes_Check(given[2])
        || !PyBytes_Check(given[3]))
        return PyErr_Format(PyExc_TypeError, "loose(names, wanted, sizes, blob)");
    const uint8_t *sizes = (const uint8_t *)PyBytes_AS_STRING(given[2]);
    Py_ssize_t many = PyBytes_GET_SIZE(given[2]) / 4;
    Reader reader = {(const uint8_t *)PyBytes_AS_STRING(given[3]), NULL};
    const uint8_t *end = reader.at + PyBytes_GET_SIZE(given[3]);
    Before before[ATTRIBUTES_MAX];
    memset(before, 0, sizeof before);

    PyObject *found = PyList_New(many);
    int good = found == NULL ? -1 : 1;
    for (Py_ssize_t at = 0; good == 1 && at < many; at++) {
        const uint8_t *four = sizes + 4 * at;
        uint32_t size = four[0] | four[1] << 8 | four[2] << 16 | (uint32_t)four[3] << 24;
        PyObject *attributes = PyDict_New();
        if (attributes == NULL) {
            good = -1;
            break;
        }
        PyList_SET_ITEM(found, at, attributes);
        if (size > end - reader.at) {
            good = 0;
            break;
        }
        reader.end = reader.at + size;
        good = take_event(&reader, before, given[0], given[1], attributes);
        reader.at = reader.end;
    }
    if (good == 1 && reader.at != end)
        good = 0;
    for (int at = 0; at < ATTRIBUTES_MAX; at++) {
        Py_XDECREF(before[at].key);
        Py_XDECREF(before[at].text);
    }
    if (good == 1)
        return found;
    Py_XDECREF(found);
    if (good < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"pair", (PyCFunction)(void (*)(void))pair, METH_FASTCALL, pair_doc},
    {"number", (PyCFunction)(void (*)(void))number, METH_FASTCALL, number_doc},
    {"loose", (PyCFunction)(void (*)(void))loose, METH_FASTCALL, loose_doc},
    {NULL, NULL, 0, NULL},
};

static int
fill(PyObject *module)
{
    PyObject *outbox = PyType_FromSpec(&outbox_spec);
    int failed = outbox == NULL || PyModule_AddObjectRef(module, "Outbox", outbox);
    Py_XDECREF(outbox);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_quick", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit__quick(void)
{
    return PyModuleDef_Init(&module);
}
