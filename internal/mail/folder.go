package mail

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"

	"ajo/internal/clock"
)

// Folder writes each e-mail as an .eml file, which mail programs open. It is for development:
// whoever can read the folder can read the codes, so only the owner can read its files (0600), and
// production does not use it.
type Folder struct {
	dir   string
	from  *mail.Address
	clock clock.Clock
}

var _ Sender = (*Folder)(nil)

// NewFolder returns a sender that writes to dir, which it creates (0700). from is one address, with
// or without a name.
func NewFolder(dir, from string) (*Folder, error) {
	sender, err := parseAddress(from)
	if err != nil {
		return nil, errFrom
	}
	if dir == "" {
		return nil, errors.New("mail: the folder has no name")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	return &Folder{dir: dir, from: sender, clock: clock.System}, nil
}

// Send writes the message to its own file, whose name has the time and a random part. A file gets
// its name only when it is complete.
func (f *Folder) Send(ctx context.Context, m Message) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := f.clock.Now()
	msg, err := compose(m, f.from, now)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(f.dir, ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("mail: %w", errors.Join(err, os.Remove(file.Name())))
		}
	}()
	if _, err := msg.WriteTo(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(f.dir, now.Format("20060102T150405.000000Z")+"-"+rand.Text()[:8]+".eml"))
}
