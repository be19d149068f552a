package pg

import (
	"bytes"
	"encoding/binary"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// CompareIDs is the server's order of ids. A batch is sorted by it, so that all lock their rows in
// one order.
func CompareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// uuidArray writes arrays of ids as the server takes them. Without it each element goes through
// reflection, an interface and a plan of its own, and every batch is made of such arrays.
type uuidArray struct{ *pgtype.ArrayCodec }

// PlanEncode encodes []uuid.UUID and []*uuid.UUID; all else is done as ever.
func (c uuidArray) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []uuid.UUID, []*uuid.UUID:
			return encodeUUIDs{}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type encodeUUIDs struct{}

// Encode appends the array; a nil slice is NULL, and so is a nil element.
func (encodeUUIDs) Encode(value any, buf []byte) ([]byte, error) {
	switch ids := value.(type) {
	case []uuid.UUID:
		if ids == nil {
			return nil, nil
		}
		buf = arrayHeader(buf, len(ids), false)
		for i := range ids {
			buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(ids[i]))), ids[i][:]...)
		}
	case []*uuid.UUID:
		if ids == nil {
			return nil, nil
		}
		buf = arrayHeader(buf, len(ids), true)
		for _, id := range ids {
			if id == nil {
				buf = binary.BigEndian.AppendUint32(buf, 0xffffffff) // the length −1
				continue
			}
			buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(id))), id[:]...)
		}
	}
	return buf, nil
}

// arrayHeader is what stands before the elements of an array with one dimension, or of an empty
// one, which has none.
func arrayHeader(buf []byte, n int, nulls bool) []byte {
	dimensions, hasNulls := uint32(1), uint32(0)
	if n == 0 {
		dimensions = 0
	}
	if nulls {
		hasNulls = 1
	}
	buf = binary.BigEndian.AppendUint32(buf, dimensions)
	buf = binary.BigEndian.AppendUint32(buf, hasNulls)
	buf = binary.BigEndian.AppendUint32(buf, pgtype.UUIDOID)
	if n > 0 {
		buf = binary.BigEndian.AppendUint32(buf, uint32(n))
		buf = binary.BigEndian.AppendUint32(buf, 1) // the first index
	}
	return buf
}
