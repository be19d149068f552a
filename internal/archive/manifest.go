package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"ajo/internal/failpoint"
)

// Manifest says what an object holds: rows of a table as COPY writes them, compressed with zstd.
// The rows stand in the order of the primary key.
type Manifest struct {
	Format    string    `json:"format"` // formatOne
	Table     string    `json:"table"`
	Partition string    `json:"partition,omitempty"` // empty: a range that was exported, and stayed
	FromID    uuid.UUID `json:"fromId"`              // the least id of the range
	ToID      uuid.UUID `json:"toId"`                // the least id behind it
	From      time.Time `json:"from"`                // the ids' times, of a range without a beginning 1970
	To        time.Time `json:"to"`
	Schema    int64     `json:"schemaVersion"` // the newest migration
	Columns   []Column  `json:"columns"`
	Rows      int64     `json:"rows"`
	// the sums of the columns that hold money, as decimal texts
	Sums       map[string]string `json:"sums,omitempty"`
	Object     string            `json:"object"`
	Plain      Stream            `json:"plain"`
	Compressed Stream            `json:"compressed"`
	At         time.Time         `json:"exportedAt"`
}

// Column is a column as Postgres names its type.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Stream is the size and the SHA-256, in hex, of a stream of bytes.
type Stream struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const (
	formatOne   = "ajo-archive-1: COPY text, zstd"
	manifestEnd = ".json"
	objectEnd   = ".copy.zst"
)

// name is the manifest's own object.
func (m *Manifest) name() string { return strings.TrimSuffix(m.Object, objectEnd) + manifestEnd }

// meter counts and digests what is written to it.
type meter struct {
	hash  hash.Hash
	n     int64
	lines int64
}

func newMeter() *meter { return &meter{hash: sha256.New()} }

func (m *meter) Write(p []byte) (int, error) {
	m.hash.Write(p)
	m.n += int64(len(p))
	for _, b := range p {
		if b == '\n' { // COPY writes a line break within a value as \n
			m.lines++
		}
	}
	return len(p), nil
}

func (m *meter) stream() Stream { return Stream{m.n, hex.EncodeToString(m.hash.Sum(nil))} }

// put writes an object with what write gives, compressed, and notes sizes, digests and rows in the
// manifest.
func put(ctx context.Context, store Store, m *Manifest, write func(w io.Writer) (rows int64, err error)) error {
	r, w := io.Pipe()
	plain, compressed := newMeter(), newMeter()
	var rows int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		z, err := zstd.NewWriter(io.MultiWriter(w, compressed), zstd.WithEncoderConcurrency(1))
		if err == nil {
			rows, err = write(io.MultiWriter(z, plain))
			err = errors.Join(err, z.Close())
		}
		w.CloseWithError(err) // nil: the end
	}()
	failpoint.At("archive/before-put")
	err := store.Put(ctx, m.Object, r)
	failpoint.At("archive/after-put")
	r.CloseWithError(errors.Join(errAbandoned, err))
	<-done
	if err != nil {
		return fmt.Errorf("write %s: %w", m.Object, err)
	}
	m.Rows, m.Plain, m.Compressed = rows, plain.stream(), compressed.stream()
	if plain.lines != rows {
		return fmt.Errorf("%s: COPY gave %d lines for %d rows", m.Object, plain.lines, rows)
	}
	return nil
}

var errAbandoned = errors.New("the store does not read on")

// ErrDamaged says that an object is not what its manifest says.
var ErrDamaged = errors.New("the archive is damaged")

// open reads an object's rows, and calls read with them. What read has not read is read here, and
// all of it is compared with the manifest: [ErrDamaged]. So read must not commit anything.
func open(ctx context.Context, store Store, m *Manifest, read func(plain io.Reader) error) error {
	o, err := store.Get(ctx, m.Object)
	if err != nil {
		return err
	}
	defer func() { _ = o.Close() }()
	plain, compressed := newMeter(), newMeter()
	stored := &noted{r: &reading{ctx, o}}
	source := io.TeeReader(stored, compressed)
	z, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	decoded := &noted{r: z}
	rows := io.TeeReader(decoded, plain)
	err = read(rows)
	if err == nil {
		_, err = io.Copy(io.Discard, rows)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, source)
	}
	if err != nil {
		if decoded.err != nil && stored.err == nil { // the store gave all bytes, and they are not what was written
			return fmt.Errorf("%s: %w: %w", m.Object, ErrDamaged, err)
		}
		return fmt.Errorf("read %s: %w", m.Object, err)
	}
	if got := compressed.stream(); got != m.Compressed {
		return fmt.Errorf("%s: %w: %d bytes with digest %s, the manifest says %d with %s", m.Object, ErrDamaged, got.Bytes, got.SHA256, m.Compressed.Bytes, m.Compressed.SHA256)
	}
	if got := plain.stream(); got != m.Plain || plain.lines != m.Rows {
		return fmt.Errorf("%s: %w: its %d rows have digest %s, the manifest says %d with %s", m.Object, ErrDamaged, plain.lines, got.SHA256, m.Rows, m.Plain.SHA256)
	}
	return nil
}

// noted keeps the error that its reader ended with.
type noted struct {
	r   io.Reader
	err error
}

func (n *noted) Read(p []byte) (int, error) {
	read, err := n.r.Read(p)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return read, err
}

// check reads an object and compares it with its manifest; nothing is kept of it.
func check(ctx context.Context, store Store, m *Manifest) error {
	return open(ctx, store, m, func(plain io.Reader) error {
		_, err := io.Copy(io.Discard, plain)
		return err
	})
}

// readManifest reads a manifest from the store.
func readManifest(ctx context.Context, store Store, name string) (m Manifest, err error) {
	r, err := store.Get(ctx, name)
	if err != nil {
		return m, err
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(io.LimitReader(&reading{ctx, r}, 1<<20))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Format != formatOne || !strings.HasSuffix(m.Object, objectEnd) || m.name() != name {
		return m, fmt.Errorf("%s: %w: it is no manifest of its object", name, ErrDamaged)
	}
	return m, nil
}
